import uuid
from datetime import datetime, time
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from incidents.kinds import Kind
from notifications.models import MAILTO, new_message_id, validate_target
from relayer_service.audit.values import Hidden, hidden_column
from relayer_service.console.dates import zone_or_utc
from relayer_service.console.overview.attention import plural
from relayer_service.net import addresses
from relayer_service.storage.encryption import EncryptedJSONField
from relayer_service.storage.leases import Leased
from relayer_service.storage.resources import Resource
from relayers.models import Relayer, RelayerTag

# Queries of the primary keys of relayers, one per cause of an incident.
RelayerKeys = list[models.QuerySet[Any, Any]]


def new_incident_id() -> str:
    return f"inc_{uuid.uuid4().hex}"


class Incident(models.Model):
    """A problem from its begin to its end. It ends when it has been absent for a while."""

    identifier = models.CharField("ID", max_length=64, unique=True, default=new_incident_id)
    key = models.CharField(max_length=100, help_text="Identifies it while it is open.")
    kind = models.CharField(max_length=32, choices=Kind)
    network = models.CharField(max_length=64, blank=True)
    title = models.CharField(max_length=300)
    url = models.TextField(help_text="The path of the list of what has the problem.")
    severe = models.BooleanField(default=False)
    unit = models.CharField(max_length=32, help_text="The noun that is counted, in the singular.")
    number = models.PositiveBigIntegerField(help_text="How many have it, as last read.")
    largest = models.PositiveBigIntegerField(help_text="How many had it at most.")
    announced = models.PositiveBigIntegerField(null=True, help_text="How many had it at the last alert.")
    announced_severe = models.BooleanField(default=False, help_text="Whether an alert has said that it is severe.")
    magnitude = models.PositiveSmallIntegerField(default=0, help_text="How often it has got worse.")
    started_at = models.DateTimeField("start")
    opened_at = models.DateTimeField(help_text="When it was first read.")
    absent_since = models.DateTimeField(null=True, help_text="Since when it is no longer read.")
    ended_at = models.DateTimeField("end", null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    acknowledged_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ["-id"]
        # Incidents are read-only.
        default_permissions = ["view"]
        constraints = [
            models.UniqueConstraint("key", condition=models.Q(ended_at=None), name="incident_open_once"),
        ]
        indexes = [
            models.Index("network", "id", name="incident_network"),
            models.Index("kind", "id", name="incident_kind"),
            models.Index("ended_at", "id", name="incident_ended"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def severity(self) -> str:
        return "severe" if self.severe else "warning"

    def counted(self, number: int) -> str:
        return f"{number:,} {self.unit if number == 1 else plural(self.unit)}"


class IncidentRelayer(models.Model):
    """A relayer that had the problem of an incident. Only the first ones of an incident are stored."""

    MAX_PER_INCIDENT = 1_000

    incident = models.ForeignKey(Incident, models.CASCADE, related_name="relayers", db_index=False)
    # Without a constraint, as releases before 0.1.0 deleted relayers but not these rows.
    relayer = models.ForeignKey(Relayer, models.CASCADE, related_name="+", db_constraint=False, db_index=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint("incident", "relayer", name="incident_relayer_once")]
        indexes = [models.Index("relayer", "incident", name="incident_of_relayer")]

    def __str__(self) -> str:
        return f"{self.relayer_id} in {self.incident_id}"


class AlertRoute(Resource):
    """Where alerts about some incidents are sent, when, and who is on call there."""

    audited_type = "alert route"

    class Channel(models.TextChoices):
        SLACK = "slack", "Slack"
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook"
        PAGERDUTY = "pagerduty", "PagerDuty"
        OPSGENIE = "opsgenie", "Opsgenie"

    # Where the event APIs are, unless a route has another URL.
    DEFAULT_URLS: ClassVar[dict[str, str]] = {
        Channel.PAGERDUTY: "https://events.pagerduty.com/v2/enqueue",
        Channel.OPSGENIE: "https://api.opsgenie.com/v2/alerts",
    }

    channel = models.CharField(max_length=16, choices=Channel)
    url = models.TextField("URL", validators=[validate_target])
    # The signing key of a webhook, the routing key of PagerDuty, the API key of Opsgenie.
    secret = EncryptedJSONField(null=True, editable=False)
    kinds = models.JSONField(default=list, blank=True)
    networks = models.JSONField(default=list, blank=True)
    tags = models.JSONField(default=list, blank=True)
    severe_only = models.BooleanField(
        "only severe problems", default=False, help_text="Severe problems only; otherwise warnings too."
    )
    quiet_from = models.TimeField(
        null=True, blank=True, help_text="From this time of day on, alerts wait. Empty: there are no quiet hours."
    )
    quiet_until = models.TimeField(null=True, blank=True, help_text="At this time of day, waiting alerts are sent.")
    time_zone = models.CharField(max_length=64, default="UTC", help_text="Of the quiet hours.")
    severe_passes = models.BooleanField(
        "severe problems pass", default=True, help_text="Alerts about severe problems are sent in quiet hours too."
    )
    on_call = models.CharField(
        max_length=150, blank=True, help_text="Who is on it: a name or a team, which every alert shows."
    )
    enabled = models.BooleanField(
        default=True, help_text="If disabled, nothing is sent; pending alerts wait until it is enabled."
    )

    class Meta(Resource.Meta):
        verbose_name = "alert route"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(quiet_from=None, quiet_until=None)
                | models.Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="alert_route_quiet_hours",
            )
        ]

    @property
    def is_email(self) -> bool:
        return self.channel == self.Channel.EMAIL

    @property
    def addresses(self) -> list[str]:
        return self.url.removeprefix(MAILTO).split(",") if self.is_email else []

    @property
    def masked_url(self) -> str:
        masked = (f"***@{address.partition('@')[2]}" for address in self.addresses)
        return ", ".join(masked) or addresses.mask(self.url)

    @property
    def has_secret(self) -> bool:
        # The stored value, not the attribute, which would be decrypted.
        return self.__dict__["secret"] is not None

    def audited(self) -> dict[str, Any]:
        return {
            "channel": self.channel,
            "url": Hidden.from_value(self.url, self.masked_url),
            "secret": hidden_column(self, "secret"),
            **{name: getattr(self, name) for name in ("kinds", "networks", "tags", "severe_only")},
            "quiet_hours": self.quiet_hours,
            **{name: getattr(self, name) for name in ("severe_passes", "on_call", "enabled")},
        }

    @property
    def quiet_hours(self) -> str:
        if self.quiet_from is None or self.quiet_until is None:
            return ""
        return f"{self.quiet_from:%H:%M} to {self.quiet_until:%H:%M} {self.time_zone}"

    def clean(self) -> None:
        super().clean()
        if self.is_email != self.url.startswith(MAILTO):
            raise ValidationError({"url": "e-mail addresses are required" if self.is_email else "a URL is required"})
        if (self.quiet_from is None) != (self.quiet_until is None):
            raise ValidationError({"quiet_until": "enter both times of the quiet hours, or none"})
        if self.quiet_from is not None and self.quiet_from == self.quiet_until:
            raise ValidationError({"quiet_until": "quiet hours must not begin and end at the same time"})

    def matches(self, incident: Incident, relayers: RelayerKeys) -> bool:
        if self.severe_only and not incident.severe:
            return False
        if self.networks and incident.network not in self.networks:
            return False
        if self.kinds and incident.kind not in self.kinds:
            return False
        tagged = RelayerTag.objects.filter(name__in=self.tags)
        return not self.tags or any(tagged.filter(relayer__in=keys).exists() for keys in relayers)

    def is_quiet(self, now: datetime) -> bool:
        if self.quiet_from is None or self.quiet_until is None:
            return False
        local: time = now.astimezone(zone_or_utc(self.time_zone)).time()
        if self.quiet_from < self.quiet_until:
            return self.quiet_from <= local < self.quiet_until
        return local >= self.quiet_from or local < self.quiet_until


class AlertMessage(Leased):
    """One message to one route. Due messages are claimed under a lease, so that none is lost with its worker."""

    class Event(models.TextChoices):
        BEGAN = "began", "Began"
        GREW = "grew", "Got worse"
        ENDED = "ended", "Ended"
        TEST = "test", "Test"

    class State(models.TextChoices):
        PENDING = "pending", "Pending"
        SENT = "sent", "Sent"
        FAILED = "failed", "Failed"
        # A later message of its incident says all that it would have said.
        SKIPPED = "skipped", "Left out for a later one"

    identifier = models.CharField("message ID", max_length=64, unique=True, default=new_message_id)
    # The history of an incident outlives its routes.
    route = models.ForeignKey(AlertRoute, models.SET_NULL, null=True, related_name="+", db_index=False)
    route_name = models.CharField("route", max_length=255)
    incident = models.ForeignKey(Incident, models.CASCADE, null=True, related_name="messages", db_index=False)
    # That of the incident: successive incidents of one cause have it in common.
    key = models.CharField(max_length=100, blank=True)
    event = models.CharField(max_length=16, choices=Event)
    # How often the incident had got worse.
    magnitude = models.PositiveSmallIntegerField(default=0)
    data = models.JSONField(help_text="What it says, as of its creation.")
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    created_at = models.DateTimeField(default=timezone.now)
    attempts = models.PositiveIntegerField(default=0)
    attempted_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["id"]
        default_permissions = ()
        constraints = [
            models.UniqueConstraint("incident", "route", "event", "magnitude", name="alert_message_once"),
            models.CheckConstraint(
                condition=models.Q(state="pending", due_at__isnull=False)
                | (~models.Q(state="pending") & models.Q(due_at=None)),
                name="alert_message_due_while_pending",
            ),
        ]
        indexes = [
            models.Index("route", "id", name="alert_message_of_route"),
            models.Index("route", "attempted_at", name="alert_message_attempted"),
        ]

    def __str__(self) -> str:
        return self.identifier
