"""The single write path of notifications."""

from notifications import signing
from notifications.models import Notification
from notifications.subscriptions import DEFAULT, to_text
from relayer_service.storage.encryption import DecryptionError
from relayer_service.writes import Values, Write


class NotificationWrite(Write[Notification]):
    """Creates or changes a notification.

    A signing key of None is unchanged, an empty one is removed. Events of None are the default.
    """

    model = Notification
    inserts_one_row = True

    def set(self, values: Values) -> None:
        if columns := self.row.set_url(values.get("url", self.row.url)):
            self.note("url", *columns)
        signing_key = values.get("signing_key")
        if signing_key is not None and not self._has_signing_key(signing_key):
            self.note("signing_key", *self.row.set_signing_key(signing_key))
        try:
            signing.key_bytes(signing_key or "")
        except signing.UnusableKey as error:
            self.warnings.append(("signing_key", str(error)))
        if "events" in values:
            chosen = values["events"]
            self._set("events", DEFAULT if chosen is None else to_text(chosen))
        self._set("enabled", values.get("enabled", self.row.enabled))

    def _set(self, name: str, value: object) -> None:
        if value != getattr(self.row, name):
            setattr(self.row, name, value)
            self.note(name, name)

    def _has_signing_key(self, signing_key: str) -> bool:
        try:
            return (self.row.signing_key or "") == signing_key
        except DecryptionError:
            return False
