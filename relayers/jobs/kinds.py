"""Jobs with relayers."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError

from relayer_service.jobs.kinds import JobKind, Result
from relayer_service.jobs.models import Job
from relayer_service.storage.selections import Selection
from relayers.health.probes import ProbeCache
from relayers.jobs.bulk_edits import CHANGE, REQUIRED, BulkEdit, edited_rows, save
from relayers.jobs.undoing import UndoneEdit, entries_of
from relayers.pausing import set_all_paused

PAUSE, RESUME = "pause_relayers", "resume_relayers"


class PauseRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = "relayers.pause_relayer"
    title = "Pause relayers"
    job_title = "Pause {}"
    explanation = "Pauses {}."
    done = "Paused"
    skip_reason = "already paused, or changed by a later job"
    paused = True

    def run(self, keys: Sequence[int]) -> Result:
        return Result(set_all_paused(Selection.from_keys(keys), self.paused, self.reason, self._reached_by_later))

    def _reached_by_later(self, keys: Sequence[int]) -> set[int]:
        """Return the relayers, from the first to the last of these, that a later job has paused or resumed.

        What it has not reached yet, it changes after this job, unless it is stopped before.
        """
        if not keys:
            return set()
        later = Job.objects.filter(pk__gt=self.job_key, kind__in=[PAUSE, RESUME], position__gte=keys[0])
        reached = (
            Selection.parse(job.selection).between(keys[0], min(job.position, keys[-1]))
            for job in later.only("selection", "position")
        )
        return set().union(*reached)


class ResumeRelayers(PauseRelayers):
    title = "Resume relayers"
    job_title = "Resume {}"
    explanation = "Resumes {}."
    done = "Resumed"
    skip_reason = "not paused, or changed by a later job"
    paused = False


class EditRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = CHANGE
    title = "Edit relayers"
    job_title = "Edit {}"
    explanation = "Changes {}."
    done = "Changed"
    skip_reason = "already so, or deleted"
    # Each may call nodes, outside of a transaction.
    batch_size = 10
    in_transaction = False

    def __init__(self) -> None:
        self.answers = ProbeCache()

    def permissions(self, parameters: Mapping[str, Any]) -> list[str]:
        return [CHANGE, *(REQUIRED[name] for name in parameters if name in REQUIRED)]

    def run(self, keys: Sequence[int]) -> Result:
        edit = BulkEdit(self.parameters, self.answers)
        done, failures = 0, []
        for relayer in edited_rows().filter(pk__in=keys).order_by("pk"):
            try:
                # Calls the nodes, before the transaction: waiting inside it would block others.
                edit(relayer)
                done += save(relayer.pk, edit, self.reason)
            except ValidationError as error:
                failures.append((relayer.identifier, "; ".join(error.messages)))
        return Result(done, failures)


class UndoEdit(EditRelayers):
    """Restores what a job of `EditRelayers` changed; with `permissions`, those that its user had besides."""

    title = "Undo edit"
    job_title = "Undo the edit of {}"
    explanation = "Restores {}."
    done = "Restored"
    skip_reason = "not changed by the edit, or deleted"
    failed = "Skipped for a reason"

    def permissions(self, parameters: Mapping[str, Any]) -> list[str]:
        return [CHANGE, *parameters.get("permissions", ())]

    def run(self, keys: Sequence[int]) -> Result:
        job = Job.objects.filter(pk=self.parameters["job"]).first()
        edit = UndoneEdit(entries_of(job, keys) if job else {}, self.parameters["permissions"])
        done, failures = 0, []
        for key, entry in edit.entries.items():
            try:
                done += save(key, edit, self.reason)
            except ValidationError as error:
                failures.append((entry.object_id, "; ".join(error.messages)))
        return Result(done, failures)
