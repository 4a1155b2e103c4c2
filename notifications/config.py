"""Notifications in fleet files."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from notifications import signing
from notifications.models import Notification
from notifications.serializers import SigningKeyField, TypeField, WebhookUrlField
from relayer_service.api.serializers import BooleanField, IdentifierField, StrictSerializer
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Change, Section


class NotificationEntry(StrictSerializer):
    id = IdentifierField()
    type = TypeField()
    url = WebhookUrlField()
    signing_key = SigningKeyField(required=False, allow_null=True, allow_blank=True)
    enabled = BooleanField(required=False)


class NotificationSection(Section):
    name = "notifications"
    entry = NotificationEntry
    queryset = Notification.objects.all()

    def change(self, path: str, row: Notification | None, values: dict[str, Any], broken: set[str]) -> Change | None:
        if broken:
            return None
        key = values.get("signing_key")
        try:
            signing.key_bytes(key or "")
        except signing.UnusableKey as error:
            self.file.warn(f"{path}.signing_key", str(error))
        if row is None:
            new = Notification(identifier=values["id"], type=values["type"], url=values["url"])
            new.enabled = values.get("enabled", True)
            new.set_signing_key(key)
            return Change(new) if self.file.check(path, new.clean) else None
        change = Change(row, self.snapshot(row))
        if columns := row.set_url(values["url"]):
            change.note("url", *columns)
        if key is not None and not self.holds(row, "signing_key", key):
            change.note("signing_key", *row.set_signing_key(key))
        # Left out, it stays: staff may have disabled it.
        if values.get("enabled", row.enabled) != row.enabled:
            row.enabled = values["enabled"]
            change.note("enabled", "enabled")
        return change

    @classmethod
    def dump_row(cls, row: Notification, variables: Variables) -> dict[str, Any]:
        url = escape(row.url)
        # A name and a password may stand in it.
        if "@" in urlsplit(row.url).netloc:
            url = variables.reference("notification", row.identifier, "url")
        dumped = {"id": escape(row.identifier), "type": row.type, "url": url, "enabled": row.enabled}
        if row.has_signing_key:
            dumped["signing_key"] = variables.reference("notification", row.identifier, "signing_key")
        return dumped
