from __future__ import annotations

import time
from datetime import timedelta
from functools import cache
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import models
from django.utils.text import capfirst

from relayer_service.audit.actors import ActorKind
from relayer_service.audit.values import as_text
from relayer_service.database.clock import DatabaseNow

PRUNE_BATCH_SIZE = 1_000
# Between two batches: on SQLite others cannot write while one is deleted.
PRUNE_PAUSE_SECONDS = 0.01
# Two indexes for the entries of tokens, as signatures and refusals are many.
BY_TOKEN, ACTED = ~models.Q(actor_key=""), models.Q(action="acted")


class AuditEntryQuerySet(models.QuerySet["AuditEntry"]):
    def for_row(self, row: models.Model) -> models.QuerySet[AuditEntry]:
        return self.filter(object_type=type_of(type(row)), object_pk=str(row.pk))

    def prune(self) -> None:
        """Delete the entries older than AUDIT_KEEP_DAYS, each batch in its own transaction."""
        if not settings.AUDIT_KEEP_DAYS:
            return
        oldest = DatabaseNow() - timedelta(days=settings.AUDIT_KEEP_DAYS)
        expired = self.filter(at__lt=oldest).order_by("at", "id").values_list("pk", flat=True)
        while self.filter(pk__in=list(expired[:PRUNE_BATCH_SIZE])).delete()[0] == PRUNE_BATCH_SIZE:
            time.sleep(PRUNE_PAUSE_SECONDS)


class AuditEntry(models.Model):
    """One change of one resource. Entries are never changed, but for the count of a repeated action."""

    class Action(models.TextChoices):
        CREATED = "created", "Created"
        CHANGED = "changed", "Changed"
        DELETED = "deleted", "Deleted"
        # An action that changes no audited fields; `reason` describes it.
        ACTED = "acted", "Action"

    at = models.DateTimeField("when", editable=False)
    object_type = models.CharField("type", max_length=32, editable=False)
    object_pk = models.CharField(
        max_length=64, editable=False, help_text="The primary key of the object, which may have been deleted."
    )
    object_id = models.CharField(
        "object", max_length=255, editable=False, help_text="The public ID or name of the object."
    )
    action = models.CharField(max_length=16, choices=Action, editable=False)
    actor_kind = models.CharField("kind of actor", max_length=16, choices=ActorKind, editable=False)
    actor = models.CharField(
        max_length=255, editable=False, help_text="The user, or the name of the token, file, command or task."
    )
    actor_key = models.CharField(max_length=12, blank=True, editable=False, help_text="The public part of a token.")
    request_id = models.CharField("request", max_length=128, blank=True, editable=False, help_text="As in the log.")
    address = models.CharField(
        "from", max_length=64, blank=True, editable=False, help_text="The IP address of the client."
    )
    reason = models.TextField(blank=True, editable=False)
    changes = models.JSONField(
        default=dict,
        editable=False,
        help_text="The old and new value of each field. For a secret, only whether it was set, changed or removed.",
    )

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        verbose_name = "audit log entry"
        verbose_name_plural = "audit log entries"
        ordering = ["-at", "-id"]
        # Entries are read-only.
        default_permissions = ["view"]
        # Each ends with the order of the list: a page costs the same however long the log is.
        indexes = [
            models.Index("at", "id", name="audit_by_time"),
            models.Index("object_type", "object_pk", "at", "id", name="audit_of_row"),
            models.Index("object_type", "at", "id", name="audit_by_type"),
            models.Index("object_id", "at", "id", name="audit_by_object"),
            models.Index("actor_kind", "at", "id", name="audit_by_kind"),
            models.Index("actor", "at", "id", name="audit_by_actor"),
            models.Index("actor_key", "at", "id", name="audit_changes_of_token", condition=BY_TOKEN & ~ACTED),
            models.Index("actor_key", "at", "id", name="audit_actions_of_token", condition=BY_TOKEN & ACTED),
            models.Index("request_id", "at", "id", name="audit_by_request"),
        ]

    def __str__(self) -> str:
        return f"{capfirst(self.kind)} {self.object_id} {self.action}"

    @property
    def kind(self) -> str:
        """The type as pages call it: a notification is a webhook."""
        return kinds().get(self.object_type, self.object_type)

    @property
    def who(self) -> str:
        kind = self.get_actor_kind_display()
        if self.actor in {"", self.actor_kind}:
            return kind
        return f"{kind} {self.actor} (rms_{self.actor_key}_…)" if self.actor_key else f"{kind} {self.actor}"

    @property
    def title(self) -> str:
        """What was done: for an action that changes no fields, the first sentence of its description."""
        described = self.action == self.Action.ACTED and self.reason
        return self.reason.partition(". ")[0].rstrip(".") if described else str(self.get_action_display())

    @property
    def note(self) -> str:
        """The reason, or the rest of an action's description."""
        if self.action == self.Action.ACTED:
            return self.reason.partition(". ")[2]
        return f"“{self.reason}”" if self.reason else ""

    @property
    def lines(self) -> list[str]:
        """The changes in text, one line per field."""
        # Sorted, as PostgreSQL does not keep the order of JSON keys.
        return [f"{name}: {self._described(name, change)}" for name, change in sorted(self.changes.items())]

    @staticmethod
    def show(name: str, value: Any) -> str:
        """Return the text of a field's value. Pages set a function that knows the units of amounts."""
        return readable(value)

    def _described(self, name: str, change: Any) -> str:
        if isinstance(change, str):
            return change
        old, new = (self.show(name, value) for value in change)
        texts: dict[str, str] = {self.Action.CREATED: new, self.Action.DELETED: old}
        return texts.get(self.action, f"{old} → {new}")


def type_of(model: type[models.Model]) -> str:
    """Return the stored type of a model's rows, which stays when the model gets another name."""
    return str(getattr(model, "audited_type", model._meta.verbose_name))


@cache
def kinds() -> dict[str, str]:
    return {type_of(model): str(model._meta.verbose_name) for model in apps.get_models()}


def readable(value: Any) -> str:
    if value is None or value == "":
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "nothing"
    return as_text(value)
