"""What jobs do, and the words for it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.apps import apps
from django.conf import settings
from django.db.models import Model
from django.utils.module_loading import import_string


@dataclass(frozen=True)
class Result:
    """How many rows of a batch were worked on, and of those that failed the name and the reason."""

    done: int
    failures: Sequence[tuple[str, str]] = ()


class JobKind:
    """Something that is done with rows, a batch at a time; rows that it does not fit are left alone.

    Where the work is changes in the database, it is done in the transaction that saves the job's progress: so nothing
    is done twice, whatever happens. Where it asks others, it has to be such that it can be repeated.
    """

    model_label: str
    # Who has it may start such a job, and stop it.
    permission: str
    # The button, the job, the sentence that says what happens to so many rows, and the words for what has happened.
    title: str
    job_title: str
    explanation: str
    done: str
    left_alone: str
    batch_size = 500
    in_transaction = True
    # Whether the audit log has what it does.
    is_recorded = True

    def run(self, keys: Sequence[int]) -> Result:
        raise NotImplementedError

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
    made: JobKind = import_string(settings.JOB_KINDS[name])()
    return made


def kinds() -> dict[str, JobKind]:
    return {name: kind(name) for name in settings.JOB_KINDS}
