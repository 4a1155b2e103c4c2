import re
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import models
from django.db.models.functions import Coalesce
from django.utils import timezone

from notifications import subscriptions
from relayer_service.audit.values import Hidden, hidden_column
from relayer_service.database.prefixes import prefix_index
from relayer_service.net import addresses
from relayer_service.observability import tracing
from relayer_service.storage.encryption import DecryptionError, EncryptedJSONField
from relayer_service.storage.leases import Leased
from relayer_service.storage.resources import Resource, text_column

# After a change of the signing key the previous one signs too, for a day: enough for receivers in any time zone.
KEY_OVERLAP_HOURS = 24
# States of a target that does not work. Each has its own index.
TARGET_TROUBLES = {
    "failing": models.Q(enabled=True, failing_since__isnull=False, gone_at=None),
    "gone": models.Q(enabled=True, gone_at__isnull=False),
    # Even if it fails or is gone: that does not matter while it is disabled.
    "disabled": models.Q(enabled=False),
}


MAILTO = "mailto:"
MAX_ADDRESSES = 20


def mailto(text: str) -> str:
    """Return the URL of e-mail addresses, which commas or spaces separate; raise ValidationError for others."""
    addresses = list(dict.fromkeys(text.replace(",", " ").split()))
    if not addresses:
        raise ValidationError("at least one e-mail address is required")
    if len(addresses) > MAX_ADDRESSES:
        raise ValidationError(f"at most {MAX_ADDRESSES} e-mail addresses are allowed")
    for address in addresses:
        validate_email(address)
    return MAILTO + ",".join(addresses)


def validate_target(value: str) -> None:
    """Raise ValidationError for what cannot be the URL of a notification of any type."""
    if value.startswith(MAILTO):
        mailto(value.removeprefix(MAILTO))
    else:
        validate_webhook_url(value)


def validate_webhook_url(value: str) -> None:
    """Raise ValidationError for a URL that cannot be a target; host names are resolved and checked at each attempt."""
    parts = addresses.split_http_url(value)
    assert parts.hostname
    if not addresses.is_allowed_port(addresses.port_of(parts)):
        raise ValidationError("the port must be 80, 443 or at least 1024")
    address = addresses.literal_address(parts.hostname)
    if address and not addresses.is_allowed(address, settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS):
        raise ValidationError("private, local and reserved addresses are not allowed")
    addresses.refuse_user_info(value)


class Notification(Resource):
    """A webhook target: the URL that events are sent to, and the key that signs them; or a channel for people."""

    audited_type = "notification"
    reserved_ending = re.compile(r"/(deliveries(/[^/]*(/replay)?)?|test)/?\Z")

    class Type(models.TextChoices):
        WEBHOOK = "webhook", "Webhook"
        # Channels for people, which receive the chosen events of all relayers. The contract has webhooks only.
        SLACK = "slack", "Slack"
        EMAIL = "email", "E-mail"

    type = models.CharField(max_length=32, choices=Type, default=Type.WEBHOOK)
    url = models.TextField("URL", validators=[validate_target], help_text="The URL that events are sent to.")
    # The default is in the database too, for processes of the previous release, which do not write this column.
    enabled = models.BooleanField(
        default=True,
        db_default=True,
        help_text="If disabled, new events are not queued, and pending deliveries are held until it is enabled.",
    )
    events = models.TextField(
        default=subscriptions.DEFAULT,
        db_default=subscriptions.EVERYTHING,
        help_text="The events that it receives, and groups of events.",
    )
    signing_key = EncryptedJSONField(null=True, editable=False)
    previous_signing_key = EncryptedJSONField(null=True, editable=False)
    previous_key_until = models.DateTimeField(
        null=True,
        editable=False,
        help_text="When the previous key expires; until then, events are signed with both keys.",
    )
    failing_since = models.DateTimeField(
        null=True, editable=False, help_text="When attempts started to fail; empty if the last one succeeded."
    )
    failing_error = text_column(200, "The error of the last attempt; empty if it succeeded.", editable=False)
    gone_at = models.DateTimeField(
        null=True, editable=False, help_text="When it returned 410 Gone. No events are sent to it after that."
    )
    # Those of earlier releases count as attempted.
    tried = models.BooleanField(
        default=False, db_default=True, editable=False, help_text="Whether an attempt was made at the current URL."
    )
    failing_announced_at = models.DateTimeField(
        null=True, editable=False, help_text="When other webhooks were last notified that this one is failing."
    )

    class Meta(Resource.Meta):
        verbose_name = "webhook"
        indexes = [
            prefix_index("identifier", name="notification_identifier_prefix"),
            prefix_index("url", name="notification_url_prefix"),
            # Few choose events about the service, which are sent to whoever chose them.
            models.Index(
                "sequence", name="notification_own_events", condition=~models.Q(events=subscriptions.DEFAULT)
            ),
            models.Index("sequence", name="notification_channels", condition=~models.Q(type="webhook")),
            *(
                models.Index("sequence", name=f"notification_{state}", condition=condition)
                for state, condition in TARGET_TROUBLES.items()
            ),
            # For counts by error on the overview.
            models.Index(
                *("failing_error", "failing_since", "sequence"),
                name="notification_failing_by_error",
                condition=TARGET_TROUBLES["failing"],
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(type__in=["webhook", "slack", "email"]), name="notification_type_known"
            ),
            models.CheckConstraint(condition=~models.Q(identifier=""), name="notification_identifier_not_empty"),
            models.CheckConstraint(condition=~models.Q(url=""), name="notification_url_not_empty"),
        ]

    @property
    def has_signing_key(self) -> bool:
        # The stored value, not the attribute, which would be decrypted.
        return self.__dict__["signing_key"] is not None

    def audited(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "url": Hidden.from_value(self.url, self.masked_url),
            "enabled": self.enabled,
            "events": self.events.split(),
            "signing_key": hidden_column(self, "signing_key"),
            "failing_since": self.failing_since,
            "gone_at": self.gone_at,
        }

    @property
    def is_webhook(self) -> bool:
        return self.type == self.Type.WEBHOOK

    @property
    def default_events(self) -> str:
        return subscriptions.DEFAULT if self.is_webhook else subscriptions.FOR_PEOPLE

    @property
    def is_email(self) -> bool:
        return self.type == self.Type.EMAIL

    @property
    def addresses(self) -> list[str]:
        """The e-mail addresses of one that sends e-mail."""
        return self.url.removeprefix(MAILTO).split(",") if self.is_email else []

    @property
    def shown_url(self) -> str:
        """The URL without user name and password, or the e-mail addresses."""
        return ", ".join(self.addresses) or addresses.without_user_info(self.url)

    @property
    def shortened_url(self) -> str:
        """The URL with the start of its path, whose rest may be a secret, or the e-mail addresses."""
        return ", ".join(self.addresses) or addresses.shorten(self.url)

    @property
    def masked_url(self) -> str:
        if self.is_email:
            return ", ".join(f"***@{address.partition('@')[2]}" for address in self.addresses)
        return addresses.mask(self.url)

    def clean(self) -> None:
        super().clean()
        if self.is_email != self.url.startswith(MAILTO):
            required = "mailto: and e-mail addresses are" if self.is_email else "an absolute http or https URL is"
            raise ValidationError({"url": f"{required} required"})

    def set_url(self, url: str) -> set[str]:
        """Set the URL, and reset the failures of the previous one; return the columns to save."""
        if url == self.url:
            return set()
        self.url, self.failing_since, self.failing_error = url, None, ""
        self.gone_at, self.tried = None, False
        return {"url", "failing_since", "failing_error", "gone_at", "tried"}

    def set_signing_key(self, signing_key: str | None) -> set[str]:
        """Set the key, or remove it if it is None or empty; return the columns to save.

        After a change the previous key signs too for KEY_OVERLAP_HOURS, so that receivers have time to switch. A
        removal is immediate.
        """
        try:
            before = self.signing_key
        except DecryptionError:
            before = None
        changed = {"signing_key"}
        hours = KEY_OVERLAP_HOURS if signing_key and before else 0
        if signing_key != before and (hours or self.previous_key_until):
            self.previous_signing_key = before if hours else None
            self.previous_key_until = timezone.now() + timedelta(hours=hours) if hours else None
            changed |= {"previous_signing_key", "previous_key_until"}
        self.signing_key = signing_key or None
        return changed

    def end_previous_key(self) -> set[str]:
        """Remove the previous key, so that only the current one signs; return the columns to save."""
        self.previous_signing_key = self.previous_key_until = None
        return {"previous_signing_key", "previous_key_until"}

    @property
    def has_previous_key(self) -> bool:
        return self.previous_key_until is not None and self.previous_key_until > timezone.now()

    def other_signing_keys(self) -> list[str]:
        try:
            has_key = self.has_previous_key and self.previous_signing_key is not None
            return [self.previous_signing_key] if has_key else []
        except DecryptionError:
            return []


def new_message_id() -> str:
    return f"msg_{uuid.uuid4().hex}"


# When a delivery failed: at its last attempt, or without one because its target was gone.
FAILED_AT = Coalesce("attempted_at", "created_at")


class Delivery(Leased):
    """One event for one target. Due deliveries are sent whether or not a task was queued for them."""

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Failed"

    identifier = models.CharField(
        "webhook-id", max_length=64, unique=True, default=new_message_id, help_text="The same for every attempt."
    )
    # Indexed below, with the order of the log.
    notification = models.ForeignKey(
        Notification, on_delete=models.PROTECT, related_name="deliveries", db_index=False, verbose_name="webhook"
    )
    event = models.CharField(max_length=64)
    subject = text_column(
        255, "The ID of the relayer that the event is about; empty for other events.", verbose_name="relayer"
    )
    request_id = text_column(128, "The ID of the request or task that caused the event, as in the log.")
    traceparent = text_column(
        tracing.MAX_LENGTH,
        "The trace of the request that caused the event. Of a transaction's event, of the one that sent it.",
    )
    body = models.BinaryField()
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    attempts_made = models.PositiveIntegerField("attempts", default=0, help_text="Since it was emitted or replayed.")
    response_code = models.PositiveSmallIntegerField(null=True, help_text="Of the last attempt.")
    error = models.CharField(max_length=200, blank=True, help_text="The error of the last attempt.")
    created_at = models.DateTimeField(default=timezone.now)
    attempted_at = models.DateTimeField("last attempt", null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        ordering = ["-id"]
        permissions = [("send_delivery", "Can replay and retry deliveries and send test events")]
        indexes = [
            models.Index("notification", "due_at", name="delivery_due", condition=models.Q(due_at__isnull=False)),
            # With the state, for the chart of a webhook from the index alone.
            models.Index("notification", "created_at", "state", name="delivery_of_webhook"),
            models.Index("notification", "id", name="delivery_by_target"),
            models.Index("subject", "id", name="delivery_subject", condition=~models.Q(subject="")),
            models.Index("state", "id", name="delivery_state"),
            models.Index("event", "id", name="delivery_event"),
            # With the state, for an index-only count of a day.
            models.Index("created_at", "id", "state", name="delivery_created"),
            # Not partial: SQLite would prefer the index by state, and read all failed ones.
            models.Index("state", FAILED_AT, name="delivery_failed"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["pending", "delivered", "failed"]), name="delivery_state_known"
            ),
            # Every pending delivery has a time at which it is due, so that none is lost; others have none.
            models.CheckConstraint(
                condition=models.Q(state="pending", due_at__isnull=False)
                | (~models.Q(state="pending") & models.Q(due_at__isnull=True)),
                name="delivery_due_while_pending",
            ),
        ]

    def __str__(self) -> str:
        return self.identifier


class DeliveryHour(models.Model):
    """The number of deliveries created in one hour that are in a state, as last counted by the worker."""

    DAYS = 31

    hour = models.DateTimeField()
    state = models.CharField(max_length=16, choices=Delivery.State)
    deliveries = models.PositiveBigIntegerField()
    counted_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "state"], name="delivery_hour_once_a_state")]
        # Shown only in the overview.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.state} of {self.hour:%Y-%m-%d %H:%M}"


class SkippedEventCount(models.Model):
    """The number of events skipped because their target was disabled; rows are appended, and folded by the worker."""

    # No foreign key: the events skipped for a deleted target stay in the total.
    target = models.BigIntegerField(db_index=True, help_text="The primary key of the webhook.")
    events = models.PositiveBigIntegerField()

    class Meta:
        # Shown only on the notification's page.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.events} of {self.target}"


class Attempt(models.Model):
    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="attempts")
    started_at = models.DateTimeField()
    milliseconds = models.PositiveIntegerField()
    response_code = models.PositiveSmallIntegerField(null=True)
    answer = models.TextField(blank=True, help_text="The first 2 kB of the response body.")
    error = models.CharField(max_length=200, blank=True)
    signature = models.TextField(
        blank=True, default="", db_default="", help_text="The header `webhook-signature`, if the request was signed."
    )

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M:%S}"
