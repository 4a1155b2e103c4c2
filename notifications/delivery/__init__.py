"""Deliveries of events to webhook targets.

`outbox.py`: the rows, claimed under a lease and written back; what 410 Gone and other failures do to a target.
`sender.py`: the event loop of a worker, which sends to all targets at once.
`attempts.py`: one signed POST and its outcome.
`schedule.py`: the retry schedule.
`replay.py`, `retention.py`: sending again, and deleting.
"""
