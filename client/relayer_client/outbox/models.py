from __future__ import annotations

import json
import re
import uuid
from typing import Any, Unpack

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import IntegrityError, connections, models, router
from django.db.transaction import TransactionManagementError, atomic
from django.utils import timezone

from relayer_client.checks import check_names, resource_path
from relayer_client.encoding import to_json
from relayer_client.errors import RelayerClientError
from relayer_client.fields import TransactionFields
from relayer_client.outbox.validation import find_faults
from relayer_client.results import FINAL

WAITING = "It waits for a sender: manage.py send_outbox hands it over."
CANCELED = "It was canceled before it was handed over."

# Of ERC-20: transfer(address,uint256).
TRANSFER = re.compile(r"0xa9059cbb0{24}([0-9a-f]{40})([0-9a-f]{64})")


class KeyReused(RelayerClientError):
    """The key belongs to a transaction with another content."""


class StatusConflict(RelayerClientError):
    """The row is in a state that does not allow this."""


class Status(models.TextChoices):
    """`queued`, then those of the service; new ones of a later service are stored, too."""

    QUEUED = "queued"
    PENDING = "pending"
    SENT = "sent"
    SUBMITTED = "submitted"
    MINED = "mined"
    CONFIRMED = "confirmed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELED = "canceled"
    UNCERTAIN = "uncertain"


class OutboxQuerySet(models.QuerySet["OutboxTransaction"]):
    def queued(self) -> OutboxQuerySet:
        """Return what the service has not accepted yet."""
        return self.filter(status=Status.QUEUED)

    def open(self) -> OutboxQuerySet:
        """Return what the service has accepted, and not finished."""
        return self.exclude(status__in=[Status.QUEUED, Status.UNCERTAIN, *FINAL])

    def to_report(self) -> OutboxQuerySet:
        """Return what a signal is sent for, once it is due."""
        return self.filter(status__in=[Status.UNCERTAIN, *FINAL])

    def cancelable(self) -> OutboxQuerySet:
        """Return what no sender may have handed over: a claim sets `unanswered_since` in the same statement."""
        return self.queued().filter(unanswered_since=None)

    def retryable(self) -> OutboxQuerySet:
        """Return what has failed, and certainly was not accepted."""
        return self.filter(status=Status.FAILED, transaction_id="", unanswered_since=None)

    def change(self, status: Status, reason: str, **values: Any) -> int:
        """Set the status of rows, and end claims: a sender that has one writes nothing any more."""
        now = timezone.now()
        values |= {"status": status, "status_reason": reason, "attempts": 0, "claim": None, "notified_at": None}
        return self.update(next_attempt_at=now, updated_at=now, **values)

    def cancel(self, key: str, using: str | None = None) -> OutboxTransaction:
        row = self.writable(using).filter(key=key)
        found = row.cancelable().change(Status.CANCELED, CANCELED)
        return row.get_changed(found, "It can be canceled only before it is handed over")

    def retry(self, key: str, using: str | None = None) -> OutboxTransaction:
        row = self.writable(using).filter(key=key)
        found = row.retryable().change(Status.QUEUED, WAITING)
        return row.get_changed(found, "It can be tried again only if it failed and certainly was not accepted")

    def get_changed(self, found: int, rule: str) -> OutboxTransaction:
        row = self.get()
        if not found:
            raise StatusConflict(f"{row.key} is {row.status}. {rule}. {row.status_reason}")
        return row

    def due(self) -> OutboxQuerySet:
        return self.filter(next_attempt_at__lte=timezone.now())

    def writable(self, using: str | None = None) -> OutboxQuerySet:
        """Return the rows of the database that is written to: a replica may lag behind it."""
        return self.using(using or router.db_for_write(OutboxTransaction))

    def enqueue(
        self, relayer: str, *, key: str, using: str | None = None, **fields: Unpack[TransactionFields]
    ) -> OutboxTransaction:
        """Store a transaction, or return the one that has the key; see `relayer_client.outbox.enqueue`."""
        rows = self.writable(using)
        if connections[rows.db].get_autocommit():
            raise TransactionManagementError(
                "enqueue() cannot be used outside of a transaction. "
                "Call it in the transaction.atomic() of the rows that belong to it."
            )
        row = OutboxTransaction(key=key, relayer=relayer, **normalize(fields))
        if fields.get("to") == "":
            raise ValidationError({"to": "It is empty. Omit it to create a contract."})
        try:
            resource_path("relayers", relayer)
        except ValueError as error:
            raise ValidationError({"relayer": str(error)}) from None
        if faults := find_faults(row.fields()):
            raise ValidationError(faults)
        row.clean_fields()
        try:
            with atomic(using=rows.db):
                row.save(force_insert=True, using=rows.db)
        except IntegrityError:
            found = rows.filter(key=key).first()
            if found is None:
                raise
            if not found.has_content(row):
                raise KeyReused(f"The key {key!r} belongs to a transaction with another content.") from None
            return found
        return row

    def follow_now(self, transaction_id: str, using: str | None = None) -> None:
        self.writable(using).open().filter(transaction_id=transaction_id).update(next_attempt_at=timezone.now())


def normalize(fields: TransactionFields) -> dict[str, Any]:
    """Return the columns of a transaction. Amounts are text, as some databases round large numbers in JSON."""
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    check_names("field", given, TransactionFields)
    values = {name: str(value) if isinstance(value, int | float) else value for name, value in given.items()}
    values = json.loads(to_json(values))
    return {
        "to": values.pop("to", ""),
        "value": values.pop("value", "0"),
        "data": values.pop("data", "").lower(),
        "options": values,
    }


class OutboxTransaction(models.Model):
    """A transaction that is to be sent, and what became of it."""

    key = models.CharField(max_length=255, unique=True, help_text="Chosen by the caller of enqueue().")
    relayer = models.CharField(max_length=255, help_text="The relayer's ID.")
    to = models.CharField(max_length=42, blank=True, validators=[RegexValidator(r"^0x[0-9a-fA-F]{40}\Z")])
    value = models.CharField(
        max_length=80,
        default="0",
        help_text="In wei.",
        validators=[RegexValidator(r"^(?:[0-9]+|0x[0-9a-fA-F]+)\Z")],
    )
    data = models.TextField(blank=True, validators=[RegexValidator(r"^0x(?:[0-9a-f]{2})*\Z")])
    options = models.JSONField(default=dict, blank=True, help_text="Further fields of the request.")
    idempotency_key = models.UUIDField(
        default=uuid.uuid4,
        unique=True,
        editable=False,
        help_text="Sent with each attempt: it is accepted once.",
    )
    status = models.CharField(max_length=32, choices=Status.choices, default=Status.QUEUED)
    status_reason = models.TextField(
        blank=True, default=WAITING, help_text="Why it is in its status, and not further."
    )
    transaction_id = models.CharField(max_length=36, blank=True, db_index=True, help_text="The service's ID.")
    hash = models.CharField(max_length=66, blank=True)
    attempts = models.PositiveIntegerField(default=0, help_text="Since its status has changed.")
    next_attempt_at = models.DateTimeField(
        default=timezone.now, null=True, blank=True, db_index=True, help_text="Empty if nothing is left to do."
    )
    unanswered_since = models.DateTimeField(
        null=True, blank=True, help_text="When it was first handed over without an answer."
    )
    claim = models.UUIDField(null=True, blank=True, help_text="Of the sender that works on it until the next attempt.")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)
    notified_at = models.DateTimeField(null=True, blank=True, help_text="When its end was reported by the signal.")

    objects = OutboxQuerySet.as_manager()

    class Meta:
        # Also where a test imports it without the app.
        app_label = "relayer_outbox"
        verbose_name = "transaction"

    def __str__(self) -> str:
        return self.key

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    @property
    def transfer(self) -> str | None:
        found = TRANSFER.fullmatch(self.data)
        return f"{int(found[2], 16)} units to 0x{found[1]}" if found else None

    def has_content(self, other: OutboxTransaction) -> bool:
        return self._content() == other._content()

    def _content(self) -> tuple[Any, ...]:
        return self.relayer, self.to.lower(), self.value, self.data, self.options

    def fields(self) -> TransactionFields:
        """Return the body of the request, the same for each attempt."""
        fields: TransactionFields = self.options | {"value": self.value}
        if self.to:
            fields["to"] = self.to
        if self.data:
            fields["data"] = self.data
        return fields


class RelayerGeneration(models.Model):
    """How far the service was with a relayer. With `evidence` of a restored database, nothing is handed over."""

    relayer = models.CharField(max_length=255, primary_key=True)
    generation = models.PositiveBigIntegerField(default=0, help_text="The highest that was read.")
    evidence = models.TextField(blank=True, help_text="Why the service's database seems to be restored.")
    acknowledged_at = models.DateTimeField(null=True, blank=True, help_text="When staff allowed to go on.")

    class Meta:
        app_label = "relayer_outbox"
        verbose_name = "generation"

    def __str__(self) -> str:
        return self.relayer
