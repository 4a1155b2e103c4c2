"""Notifications in fleet files."""

from typing import Any
from urllib.parse import urlsplit

from notifications.models import MAILTO, Notification, mailto, validate_target
from notifications.serializers import EventsField, SigningKeyField
from notifications.writes import NotificationWrite
from relayer_service.api.serializers import BooleanField, ChoiceField, IdentifierField, StrictSerializer, StringField
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section


class TargetField(StringField):
    """The URL of a webhook or of Slack, or `mailto:` and e-mail addresses."""

    default_validators = [validate_target]

    def to_internal_value(self, data: Any) -> str:
        url = super().to_internal_value(data)
        return mailto(url.removeprefix(MAILTO)) if url.startswith(MAILTO) else url


class NotificationEntry(StrictSerializer):
    id = IdentifierField()
    type = ChoiceField(choices=Notification.Type.values)
    url = TargetField()
    signing_key = SigningKeyField()
    enabled = BooleanField(required=False)
    events = EventsField(required=False)


class NotificationSection(Section):
    name = "notifications"
    entry = NotificationEntry
    queryset = Notification.objects.all()
    write_class = NotificationWrite
    locked_after = ("relayers",)

    def plan(self) -> None:
        super().plan()
        # No relayer can name another type.
        self.known = {key: row for key, row in self.known.items() if row is None or row.is_webhook}

    def check_new(self, values: dict[str, Any]) -> None:
        Notification(identifier=values["id"], type=values["type"], url=values["url"]).clean()

    @classmethod
    def dump_row(cls, row: Notification, variables: Variables) -> dict[str, Any]:
        url = escape(row.url)
        # A URL may contain a user name and a password; a Slack URL is a secret.
        if "@" in urlsplit(row.url).netloc or row.type == Notification.Type.SLACK:
            url = variables.reference("notification", row.identifier, "url")
        dumped = {"id": escape(row.identifier), "type": row.type, "url": url, "enabled": row.enabled}
        dumped["events"] = row.events.split()
        if row.has_signing_key:
            dumped["signing_key"] = variables.reference("notification", row.identifier, "signing_key")
        return dumped
