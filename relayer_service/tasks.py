"""Tasks for the worker to discover; `background` registers its own with the queue."""

from relayer_service.console.overview.incidents import prune_acknowledgements
from relayer_service.jobs.running import prune_jobs, run_due_jobs, run_job

__all__ = ["prune_acknowledgements", "prune_jobs", "run_due_jobs", "run_job"]
