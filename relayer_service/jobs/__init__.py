"""Jobs: bulk actions of staff, run by the worker. `settings.JOB_KINDS` lists the kinds, each a class of its app."""
