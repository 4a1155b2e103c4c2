"""Deliveries of events to webhooks.

`creating.py`: new rows, from events.
`outbox.py`: the rows, claimed under a lease and written back; the effect of 410 Gone and other failures on a target.
`sender.py`: the event loop of a worker, which sends to all targets concurrently.
`attempts.py`: one signed POST, its outcome, and the retry schedule.
`alerts.py`: the events that other targets receive about one that fails or is gone.
`counts.py`: pending, failed and skipped, for the overview and the metrics.
"""
