"""The audit log: who changed what of which resource, written in the transaction of the change.

What writes a resource may use `recording`; what knows who acts, `actors`; a model's `audited` method, `values`; and
what shows the log, `models`. Nothing is recorded by itself: a place that writes a resource says so.
"""
