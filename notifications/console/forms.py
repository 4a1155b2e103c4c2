"""The admin's form for notifications, with a write-only signing key."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from notifications.delivery import signing
from notifications.events import NOTIFICATION_TEST, all_events
from notifications.models import MAX_ADDRESSES, Notification, mailto
from notifications.subscriptions import groups
from notifications.writes import NotificationWrite
from relayer_service.console.forms import ResourceForm
from relayer_service.net.addresses import without_user_info


def event_choices() -> list[tuple[str, str]]:
    names = sorted(all_events().keys() - {NOTIFICATION_TEST.name})
    return [*((group, f"All of {group}") for group in groups()), *((name, name) for name in names)]


def addresses_field() -> forms.CharField:
    return forms.CharField(
        label="E-mail addresses",
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "ops@example.com, oncall@example.com"}),
        help_text=f"Separated by commas, at most {MAX_ADDRESSES}.",
    )


class NotificationForm(ResourceForm):
    write_class = NotificationWrite
    field_names = {"events": "chosen_events", "signing_key": "new_signing_key"}

    url = forms.CharField(
        label="URL",
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "https://example.com/webhooks"}),
        help_text="Events are sent to this absolute http or https URL.",
    )
    addresses = addresses_field()
    new_signing_key = forms.CharField(
        label="Signing key",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}, render_value=False),
        help_text="Optional. Without a key, events are sent unsigned. A key is whsec_ and base64, or any text.",
    )
    remove_signing_key = forms.BooleanField(
        label="Remove the signing key",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Events are sent unsigned from now on.",
    )

    # Not named like the column, which Django would set.
    chosen_events = forms.MultipleChoiceField(
        label="Events",
        required=False,
        choices=event_choices,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="The default, also if none is chosen: relayer.* and transaction.* of the relayers that use it; for "
        "Slack and e-mail, relayer.* and transaction.refused of all relayers. Events about other webhooks, prices, "
        "access tokens and workers are sent only where they are chosen.",
    )

    class Meta:
        model = Notification
        fields = ["identifier", "type", "url", "enabled"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Earlier releases accepted URLs with a password.
        self.initial["url"] = without_user_info(self.instance.url)
        self.initial["addresses"] = ", ".join(self.instance.addresses)
        self.initial["chosen_events"] = self.instance.events.split()
        self.fields["chosen_events"].show_hidden_initial = bool(self.instance.pk)
        if self.instance.pk:
            self.fields["new_signing_key"].label = "New signing key"
        if self.instance.pk and self.instance.has_signing_key:
            self.fields["new_signing_key"].help_text = "Leave empty to keep the current key."

    def clean_new_signing_key(self) -> str:
        key: str = self.cleaned_data["new_signing_key"]
        try:
            signing.key_bytes(key)
        except signing.UnusableKey as error:
            raise forms.ValidationError(str(error)) from None
        return key

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("new_signing_key") and cleaned.get("remove_signing_key"):
            self.add_error("remove_signing_key", "Enter a new key or remove the current one, not both.")
        return cleaned

    def _set_target(self, cleaned: dict[str, Any]) -> None:
        """Set the URL of the addresses for e-mail; of others it is required."""
        if cleaned.get("type", self.instance.type) == Notification.Type.EMAIL:
            try:
                cleaned["url"] = mailto(cleaned.get("addresses", ""))
            except forms.ValidationError as error:
                raise forms.ValidationError({"addresses": error.messages}) from None
        elif "url" in cleaned and not cleaned["url"]:
            raise forms.ValidationError({"url": "This field is required."})

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        self._set_target(cleaned)
        values: dict[str, Any] = {name: cleaned[name] for name in ("type", "url", "enabled") if name in cleaned}
        if "chosen_events" in cleaned and "chosen_events" in self.changed_data:
            values["events"] = cleaned["chosen_events"] or None
        if cleaned.get("remove_signing_key"):
            values["signing_key"] = ""
        elif cleaned.get("new_signing_key"):
            values["signing_key"] = cleaned["new_signing_key"]
        return values

    def _get_validation_exclusions(self) -> set[str]:
        """Exclude an unchanged URL, which may be one that only earlier releases accepted."""
        kept = {"url"} - set(self.changed_data) if self.instance.pk else set()
        return super()._get_validation_exclusions() | kept  # type: ignore[misc,no-any-return]  # not in the stubs
