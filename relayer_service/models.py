from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Max
from django.utils import timezone

from relayer_service.audit.models import AuditEntry
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.jobs.models import Job
from relayer_service.observability.call_counts import CallCount
from relayer_service.sign_in.models import SecondFactor, SignInAddress
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField, primary_key_id

# Of packages: Django looks for all models of an app here.
__all__ = ["AuditEntry", "CallCount", "Job", "SecondFactor", "SignInAddress"]

logger = logging.getLogger(__name__)

CANARY = "canary"
IDEMPOTENCY_KEPT = timedelta(hours=24)
# Checks of a worker without a heartbeat in between, at the interval of heartbeats.
MAX_MISSED = 4


class PeriodicRunManager(models.Manager["PeriodicRun"]):
    def claim(self, name: str, seconds: int) -> PeriodicRun | None:
        """Claim the current slot, `seconds` long; return None if another caller has claimed it.

        Slots follow the database's clock. A slot in the future comes from a wrong clock, and is overruled: otherwise
        the work would stop until then.
        """
        current = current_slot(seconds)
        if not self.filter(name=name, slot__lt=current["slot"]).update(**current):
            run, is_new = self.get_or_create(name=name, defaults=current)
            if is_new:
                return run
            # Read after the row: no earlier claim by this clock is later.
            current = current_slot(seconds)
            if run.slot <= current["slot"]:
                return None
            logger.warning("Periodic work %s was last claimed for a time in the future; running it now", name)
            if not self.filter(name=name, slot=run.slot).update(**current):
                return None
        return PeriodicRun(name=name, **current)


def current_slot(seconds: int) -> dict[str, Any]:
    """Return the columns of a run that starts now."""
    now = database_now()
    return {"slot": int(now.timestamp()) // seconds, "started_at": now}


class PeriodicRun(models.Model):
    """The latest run of one piece of periodic work."""

    name = models.CharField(max_length=100, primary_key=True)
    slot = models.BigIntegerField(help_text="The number of the interval that ran last.")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, help_text="When a run last succeeded.")
    seconds = models.FloatField(null=True, help_text="The duration of that run.")
    failed = models.BooleanField(default=False, help_text="Whether the last run failed. The error is in the log.")
    # Only the heartbeat has it, while it is reported that no worker is running: the time of the last one before.
    stopped_since = models.DateTimeField(null=True, editable=False)

    objects = PeriodicRunManager()

    class Meta:
        ordering = ["name"]
        verbose_name = "periodic work"
        verbose_name_plural = "periodic work"

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def recorded(self) -> Iterator[None]:
        started = time.monotonic()
        row = PeriodicRun.objects.filter(name=self.name)
        try:
            yield
        except BaseException:
            row.update(failed=True)
            raise
        row.update(failed=False, finished_at=DatabaseNow(), seconds=time.monotonic() - started)


class WorkerProcessManager(models.Manager["WorkerProcess"]):
    def beat(self, name: str) -> None:
        self.bulk_create(
            [WorkerProcess(name=name, beat_at=DatabaseNow(), started_at=DatabaseNow())],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["beat_at", "missed", "silent_since"],
        )

    def silent(self) -> list[WorkerProcess]:
        """Count a check, and return those that have not beaten for MAX_MISSED checks and are not reported.

        Checks are counted and not seconds: without the database, nobody beats and nobody checks. Those that another
        worker has replaced since are deleted.
        """
        self.update(missed=F("missed") + 1)
        newest = self.filter(silent_since=None).aggregate(newest=Max("started_at"))["newest"]
        if newest:
            self.filter(silent_since__lt=newest).delete()
        return list(self.filter(missed__gt=MAX_MISSED, silent_since=None).order_by("name"))


class WorkerProcess(models.Model):
    """A worker. A clean stop deletes its row; of what is killed it stays until it is reported and another starts."""

    name = models.CharField(max_length=300, primary_key=True, help_text="The host and the process ID.")
    beat_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    missed = models.PositiveIntegerField(default=0, help_text="Checks since its last heartbeat.")
    silent_since = models.DateTimeField(null=True, help_text="Its last heartbeat, if it is reported as silent.")

    objects = WorkerProcessManager()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class RowDelta(models.Model):
    """A change of the number of rows in a bucket of a table, written by triggers (`storage/counting.py`)."""

    list_name = models.CharField(max_length=63)
    bucket = models.BigIntegerField()
    rows = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["list_name", "bucket", "rows"], name="rowdelta_by_bucket")]

    def __str__(self) -> str:
        return f"{self.list_name} {self.bucket}: {self.rows:+d}"


class IdempotentRequestManager(models.Manager["IdempotentRequest"]):
    def prune(self) -> None:
        self.filter(at__lte=DatabaseNow() - IDEMPOTENCY_KEPT).delete()


class IdempotentRequest(models.Model):
    """A create request with an Idempotency-Key, and its response."""

    # The process chooses the key: after two attempts to insert, it identifies whose row is stored.
    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    token_key = models.CharField(max_length=12, help_text="The public part of the caller's token.")
    route = models.CharField(max_length=1024)
    key = models.CharField(max_length=255)
    digest = models.CharField(max_length=64, help_text="A keyed hash of the body. The body itself is not stored.")
    at = models.DateTimeField(default=timezone.now)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(help_text="The complete response body.")

    objects = IdempotentRequestManager()

    class Meta:
        constraints = [models.UniqueConstraint("token_key", "route", "key", name="idempotent_request_once")]
        indexes = [models.Index("at", name="idempotent_request_by_age")]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"


class EncryptionKeyManager(models.Manager["EncryptionKey"]):
    def ensure_canary(self) -> None:
        identifier = primary_key_id()
        if not self.filter(identifier=identifier).exists():
            self.get_or_create(identifier=identifier, defaults={"canary": CANARY})

    def problems(self) -> list[str]:
        """Return a message for each key that is missing from ENCRYPTION_KEYS or has a different value there."""
        problems = []
        for key in self.all():
            try:
                key.canary  # noqa: B018  # reading it is the test
            except DecryptionError as error:
                problems.append(str(error))
        return problems


class EncryptionKey(models.Model):
    """An encryption key, with a canary that only the same key decrypts."""

    identifier = models.CharField(max_length=16, primary_key=True)
    canary = EncryptedJSONField()

    objects = EncryptionKeyManager()

    def __str__(self) -> str:
        return self.identifier


class Acknowledgement(models.Model):
    """A problem on the overview that staff know of: it is hidden until it gets worse, or ends and begins again."""

    cause = models.CharField(max_length=300, unique=True, help_text="The key of the cause.")
    title = models.CharField(max_length=300)
    number = models.PositiveBigIntegerField(help_text="How many had the problem.")
    severe = models.BooleanField(default=False)
    by = models.CharField(max_length=150)
    at = models.DateTimeField(default=timezone.now)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        # Part of the overview.
        default_permissions = ()
        permissions = [("acknowledge", "Can acknowledge problems on the overview")]

    def __str__(self) -> str:
        return self.title

    def audited(self) -> dict[str, Any]:
        return {"number": self.number, "acknowledged_by": self.by}


class ListPreference(models.Model):
    """What a user keeps for a list of the admin."""

    # Without a constraint, as releases before 0.1.0 deleted users but not these rows.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_constraint=False)
    list_name = models.CharField(max_length=100, help_text="The label of its model.")
    filters = models.JSONField(default=dict, help_text="The query strings of the saved filters, by name.")
    columns = models.JSONField(default=dict, help_text="Whether a column is shown, where that is not the default.")

    class Meta:
        # Users manage their own.
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "list_name"], name="list_preference_once")]

    def __str__(self) -> str:
        return self.list_name
