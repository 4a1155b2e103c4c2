"""The single write path of alert routes."""

from django.core.exceptions import ValidationError

from incidents.models import AlertRoute
from notifications.delivery import signing
from relayer_service.writes import Values, Write

COLUMNS = ("channel", "url", "kinds", "networks", "tags")


class AlertRouteWrite(Write[AlertRoute]):
    """Creates or changes an alert route. A key of "" is unchanged."""

    model = AlertRoute
    inserts_one_row = True

    def set(self, values: Values) -> None:
        moves = not self.is_new and values.get("url", self.row.url) != self.row.url
        if moves and self.row.has_secret and not values.get("secret"):
            raise ValidationError({"secret": "to change the URL, enter the key again"})
        for name in COLUMNS:
            if name in values and values[name] != getattr(self.row, name):
                setattr(self.row, name, values[name])
                self.note(name, name)
        if secret := values.get("secret"):
            if self.row.channel == AlertRoute.Channel.WEBHOOK:
                try:
                    signing.key_bytes(secret)
                except signing.UnusableKey as error:
                    raise ValidationError({"secret": str(error)}) from None
            self.row.secret = secret
            self.note("secret", "secret")
        if self.row.channel in AlertRoute.DEFAULT_URLS and not self.row.has_secret:
            raise ValidationError({"secret": f"{self.row.get_channel_display()} needs a key"})
