from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.utils import timezone

from relayer_service.observability import tracing
from relayer_service.storage.encryption import EncryptedJSONField
from relayer_service.storage.leases import Leased
from relayer_service.storage.resources import text_column

MAX_FAILURES_NAMED = 10


class Job(Leased):
    """A bulk action and its progress. When its worker is killed and the lease ends, another one continues."""

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Running"
        STOPPED = "stopped", "Stopped"
        FINISHED = "finished", "Finished"

    kind = models.CharField(max_length=32, editable=False)
    title = models.CharField("job", max_length=255, editable=False)
    actor = models.CharField("started by", max_length=255, editable=False)
    token_key = text_column(12, "The public part of the token that started it; empty if a user did.", editable=False)
    reason = models.TextField(
        blank=True, default="", db_default="", editable=False, help_text="The reason that the caller sent."
    )
    parameters = EncryptedJSONField(null=True, editable=False, help_text="Of its kind, until it is over.")
    traceparent = text_column(tracing.MAX_LENGTH, "The trace of the request that started it.", editable=False)
    selection = models.TextField(editable=False, help_text="The rows (`storage/selections.py`).")
    total = models.PositiveIntegerField(editable=False)
    position = models.BigIntegerField(
        default=0, editable=False, help_text="The primary key of the last row that was processed."
    )
    done = models.PositiveIntegerField(default=0, editable=False)
    skipped = models.PositiveIntegerField(default=0, editable=False, db_column="left_alone")
    failed = models.PositiveIntegerField(default=0, editable=False)
    failures = models.JSONField(
        default=list, editable=False, help_text="The first failures, each with a name and a reason."
    )
    state = models.CharField(max_length=16, choices=State, default=State.WAITING, editable=False)
    stopped_by = models.CharField(max_length=255, blank=True, editable=False, help_text="The user who stopped it.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-id"]
        # Jobs are read-only.
        default_permissions = ["view"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "running", "stopped", "finished"]), name="job_state_known"
            ),
            # A job that is not over is always due at some time.
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "running"], due_at__isnull=False)
                | models.Q(state__in=["stopped", "finished"], due_at__isnull=True),
                name="job_due_until_over",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def identifier(self) -> str:
        """What its ciphertext is bound to: it has no primary key before it is saved."""
        return f"{self.kind} {self.created_at.isoformat()}"

    @property
    def started_by(self) -> str:
        return f"{self.actor} (token)" if self.token_key else self.actor

    @property
    def taken(self) -> int:
        return self.done + self.skipped + self.failed

    @property
    def is_over(self) -> bool:
        return self.state in {self.State.STOPPED, self.State.FINISHED}

    def held(self) -> models.QuerySet[Job]:
        return Job.objects.held([self])

    def end(self, state: str, now: datetime) -> dict[str, Any]:
        return {"state": state, "finished_at": now, "due_at": None, "lease": None, "parameters": None}
