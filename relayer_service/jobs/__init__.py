"""Jobs: something that staff have done with many rows at once, in the worker.

`settings.JOB_KINDS` names the kinds, each a class of its app. What starts a job may use `running`; a kind, `kinds`.
"""
