"""Deliveries of events to webhooks, e-mail and chat.

`creating.py`: new rows, from events. `outbox.py`: the rows, claimed under a lease and written back; the effect of 410
Gone and other failures on a target. `sender.py`: the event loop of a worker, which sends to all targets concurrently.
`attempts.py`: one signed POST (`signing.py`), its outcome, and the retry schedule. `mail.py`: one e-mail.
"""
