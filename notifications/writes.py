"""The single write path of notifications."""

from django.core.exceptions import ValidationError

from notifications.delivery import signing
from notifications.models import Notification
from notifications.subscriptions import to_text
from relayer_service.storage.encryption import DecryptionError
from relayer_service.writes import Values, Write


class NotificationWrite(Write[Notification]):
    """Creates or changes a notification.

    A signing key of None is unchanged, an empty one is removed. Events of None are the default of the type.
    """

    model = Notification
    inserts_one_row = True

    def set(self, values: Values) -> None:
        self._set_type(values.get("type", self.row.type))
        if columns := self.row.set_url(values.get("url", self.row.url)):
            self.note("url", *columns)
        signing_key = values.get("signing_key")
        if signing_key and not self.row.is_webhook:
            raise ValidationError({"signing_key": "only requests to webhooks are signed"})
        if signing_key is not None and not self._has_signing_key(signing_key):
            self.note("signing_key", *self.row.set_signing_key(signing_key))
        try:
            signing.key_bytes(signing_key or "")
        except signing.UnusableKey as error:
            self.warnings.append(("signing_key", str(error)))
        if self.is_new or "events" in values:
            chosen = values.get("events")
            self._set("events", self.row.default_events if chosen is None else to_text(chosen))
        self._set("enabled", values.get("enabled", self.row.enabled))

    def _set_type(self, chosen: str) -> None:
        if self.is_new:
            self.row.type = chosen
        elif chosen != self.row.type:
            text = f"the type of a notification cannot change, and this one is {self.row.type}"
            raise ValidationError({"type": text})

    def _set(self, name: str, value: object) -> None:
        if value != getattr(self.row, name):
            setattr(self.row, name, value)
            self.note(name, name)

    def _has_signing_key(self, signing_key: str) -> bool:
        try:
            return (self.row.signing_key or "") == signing_key
        except DecryptionError:
            return False
