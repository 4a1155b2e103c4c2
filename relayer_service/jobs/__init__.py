"""Jobs: bulk actions that the worker runs. `settings.JOB_KINDS` lists the kinds, each a class of its app."""
