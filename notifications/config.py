"""Notifications in fleet files."""

from typing import Any
from urllib.parse import urlsplit

from notifications.models import Notification
from notifications.serializers import EventsField, SigningKeyField, TypeField, WebhookUrlField
from notifications.writes import NotificationWrite
from relayer_service.api.serializers import BooleanField, IdentifierField, StrictSerializer
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section


class NotificationEntry(StrictSerializer):
    id = IdentifierField()
    type = TypeField()
    url = WebhookUrlField()
    signing_key = SigningKeyField()
    enabled = BooleanField(required=False)
    events = EventsField(required=False)


class NotificationSection(Section):
    name = "notifications"
    entry = NotificationEntry
    queryset = Notification.objects.filter(type=Notification.Type.WEBHOOK)
    write_class = NotificationWrite
    locked_after = ("relayers",)

    @classmethod
    def dump_row(cls, row: Notification, variables: Variables) -> dict[str, Any]:
        url = escape(row.url)
        # It may contain a user name and a password.
        if "@" in urlsplit(row.url).netloc:
            url = variables.reference("notification", row.identifier, "url")
        dumped = {"id": escape(row.identifier), "type": row.type, "url": url, "enabled": row.enabled}
        dumped["events"] = row.events.split()
        if row.has_signing_key:
            dumped["signing_key"] = variables.reference("notification", row.identifier, "signing_key")
        return dumped
