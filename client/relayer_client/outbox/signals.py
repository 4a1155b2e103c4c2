"""`transaction_finished` is sent with a `transaction`, a row whose status is final; `transaction_uncertain` with one
that staff must resolve.

Receivers run in the database transaction that records the notification: what they write to the same database is
committed with it, exactly once. Everything else they do, such as sending e-mail, can happen more than once: a receiver
that raises is rolled back and called again later, as is one whose process is killed.
"""

from django.dispatch import Signal

transaction_finished = Signal()
transaction_uncertain = Signal()
