"""Deliveries of events to webhook targets.

`creating.py`: new rows, from events.
`outbox.py`: the rows, claimed under a lease and written back; what 410 Gone and other failures do to a target.
`sender.py`: the event loop of a worker, which sends to all targets at once.
`attempts.py`: one signed POST and its outcome.
`schedule.py`: the retry schedule.
`alerts.py`: what other targets are told of one that fails or is gone.
`counts.py`: how many wait or have failed, for the overview and the metrics.
`retention.py`: deleting.
"""
