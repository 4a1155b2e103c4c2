"""The base class of the kinds of jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db.models import Model
from django.utils.module_loading import import_string


@dataclass(frozen=True)
class Result:
    """The number of rows processed in a batch, and the name and reason of each failure."""

    done: int
    failures: Sequence[tuple[str, str]] = ()


class JobKind:
    """A bulk action, applied a batch at a time; rows that it does not apply to are skipped.

    With `in_transaction`, a batch runs in the transaction that saves the job's progress, so that it runs exactly once.
    Otherwise it must be idempotent.
    """

    model_label: str
    # Required to start and to stop such a job.
    permission: str
    # The label of the button, the title of the job, the question to confirm, and the labels of the result.
    title: str
    job_title: str
    explanation: str
    done: str
    skip_reason: str
    failed = "Failed"
    batch_size = 500
    in_transaction = True
    # Whether the audit log records its changes.
    is_recorded = True
    # The primary key of the job.
    job_key = 0
    # The reason that the caller sent.
    reason = ""
    # The JSON object that it was started with; it is stored encrypted.
    parameters: Mapping[str, Any] = {}

    def run(self, keys: Sequence[int]) -> Result:
        raise NotImplementedError

    def permissions(self, parameters: Mapping[str, Any]) -> list[str]:
        """Return what its user needs, until it is over, for a job with these parameters."""
        return [self.permission]

    @property
    def model(self) -> type[Model]:
        return apps.get_model(self.model_label)

    @property
    def view_permission(self) -> str:
        opts = self.model._meta
        return f"{opts.app_label}.view_{opts.model_name}"

    def counted(self, number: int) -> str:
        opts = self.model._meta
        return f"1 {opts.verbose_name}" if number == 1 else f"{number:,} {opts.verbose_name_plural}"


def kind(name: str) -> JobKind:
    instance: JobKind = import_string(settings.JOB_KINDS[name])()
    return instance


def kinds() -> dict[str, JobKind]:
    return {name: kind(name) for name in settings.JOB_KINDS}
