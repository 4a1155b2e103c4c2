"""The admin's form for alert routes, with a write-only key."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
)

from incidents.kinds import Kind
from incidents.models import AlertRoute
from incidents.writes import AlertRouteWrite
from notifications.console.forms import addresses_field
from notifications.models import mailto
from relayer_service.console.dates import zone_names
from relayer_service.console.forms import ResourceForm
from relayers.console.filters import used_networks, used_tags
from relayers.models import Relayer

CHOSEN = ("kinds", "networks", "tags")


def chosen(label: str, choices: Any, help_text: str) -> forms.MultipleChoiceField:
    return forms.MultipleChoiceField(
        label=label,
        required=False,
        choices=choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=help_text,
    )


class AlertRouteForm(ResourceForm):
    write_class = AlertRouteWrite
    field_names = {**{name: f"chosen_{name}" for name in CHOSEN}, "secret": "new_secret"}

    url = forms.CharField(
        label="URL",
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Of a webhook, or an incoming webhook of Slack. PagerDuty and Opsgenie: leave empty for their event "
        "API; Opsgenie in the EU is https://api.eu.opsgenie.com/v2/alerts.",
    )
    addresses = addresses_field()
    new_secret = forms.CharField(
        label="Key",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False),
        help_text="PagerDuty: the integration key (Events API v2). Opsgenie: the API key of the integration. Webhook: "
        "optional, signs the requests. It is never shown again.",
    )
    chosen_kinds = chosen("Problems", Kind.choices, "Of these kinds; of all kinds if none is chosen.")
    chosen_networks = chosen(
        "Networks",
        (),
        "Of these networks in use; if none is chosen, of all, and problems that belong to no network.",
    )
    chosen_tags = chosen(
        "Tags", (), "Of relayers with any of these tags; if none is chosen, of all, and problems without relayers."
    )
    time_zone = forms.ChoiceField(
        initial="UTC",
        choices=lambda: [(name, name) for name in zone_names()],
        widget=UnfoldAdminSelectWidget,
        help_text="Of the quiet hours.",
    )

    class Meta:
        model = AlertRoute
        fields = [
            *("identifier", "channel", "enabled", "on_call", "severe_only"),
            *("quiet_from", "quiet_until", "time_zone", "severe_passes"),
        ]
        help_texts = {"identifier": "Its name in the history of incidents. Cannot be changed."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        route = self.instance
        if not route.pk:
            # A name that people choose, as alerts and the history show it.
            self.initial["identifier"] = ""
        self.initial["url"] = "" if route.is_email else route.url
        self.initial["addresses"] = ", ".join(route.addresses)
        self.initial.update({f"chosen_{name}": getattr(route, name) for name in CHOSEN})
        for name, used in (("networks", used_networks(Relayer)), ("tags", used_tags())):
            field: Any = self.fields[f"chosen_{name}"]
            field.choices = [(each, each) for each in sorted({*used, *getattr(route, name)})]
        if route.pk:
            for name in CHOSEN:
                self.fields[f"chosen_{name}"].show_hidden_initial = True
            if route.has_secret:
                self.fields["new_secret"].label = "New key"
                self.fields["new_secret"].help_text = "Leave empty to keep the current key."

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        values = {"channel": cleaned.get("channel", self.instance.channel), "secret": cleaned.get("new_secret")}
        for name in CHOSEN:
            if f"chosen_{name}" in self.changed_data:
                values[name] = cleaned.get(f"chosen_{name}", [])
        # Set on the row by Django, too.
        cleaned["url"] = self._target(values["channel"], cleaned)
        return values | {"url": cleaned["url"]}

    def _target(self, channel: str, cleaned: dict[str, Any]) -> str:
        if channel == AlertRoute.Channel.EMAIL:
            try:
                return mailto(cleaned.get("addresses", ""))
            except forms.ValidationError as error:
                raise forms.ValidationError({"addresses": error.messages}) from None
        url = cleaned.get("url") or AlertRoute.DEFAULT_URLS.get(channel, "")
        if not url:
            raise forms.ValidationError({"url": "This field is required."})
        return str(url)
