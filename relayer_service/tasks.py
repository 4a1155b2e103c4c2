"""The tasks of what apps share, for the worker, which looks for them here; those of `ops` come with the queue."""

from relayer_service.jobs.running import prune_jobs, run_due_jobs, run_job

__all__ = ["prune_jobs", "run_due_jobs", "run_job"]
