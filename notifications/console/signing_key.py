"""The panel of a webhook's signing key: it is generated here, and the previous one is ended."""

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from notifications.console import formatting
from notifications.delivery import signing
from notifications.models import KEY_OVERLAP_HOURS, Notification
from notifications.writes import NotificationWrite
from relayer_service.audit.recording import acted, record
from relayer_service.console import confirmation
from relayer_service.console.confirmation import PendingAction
from relayer_service.console.dates import exact
from relayer_service.console.panels import Panel, object_view

GENERATED = "A random key is generated and shown once. Requests are signed with it from then on."
OVERLAP = f"The current key also signs for {KEY_OVERLAP_HOURS} hours, so that receivers have time to switch."
ENDING = "Requests are signed with the current key alone. Receivers that only have the previous one refuse them."


class SigningKey(Panel):
    template = "admin/notifications/notification/key.html"
    views = ["generate_key", "end_previous_key"]

    def may_view(self, request: HttpRequest) -> bool:
        return bool(self.admin.has_change_permission(request))

    def is_shown(self, notification: Notification) -> bool:
        return notification.type == Notification.Type.WEBHOOK

    def context(self, request: HttpRequest, notification: Notification) -> dict[str, Any]:
        return {
            "signing_key": {
                "is_set": notification.has_signing_key,
                "previous_until": exact(notification.previous_key_until) if notification.has_previous_key else "",
                "generate_url": self.url("generate_key", notification),
                "end_url": self.url("end_previous_key", notification),
            }
        }

    @object_view("change", asks_first=True)
    def generate_key(self, request: HttpRequest, notification: Notification) -> HttpResponse:
        action = self._action(request, notification)
        if not action.is_confirmed:
            texts = [GENERATED, *([OVERLAP] if notification.has_signing_key else [])]
            if notification.has_previous_key:
                texts.append("The previous key ends now: at most two keys sign.")
            return self._ask(request, action, "Generate key", texts)
        key = signing.new_key()
        with transaction.atomic():
            write = NotificationWrite(locked(notification))
            write.change({"signing_key": key})
            write.save()
        context = {"notification": write.row, "key": key, "back": action.back}
        template = "admin/notifications/notification/generated_key.html"
        response: HttpResponse = self.admin.show_once(request, "Key generated", template, context)
        return response

    @object_view("change", asks_first=True)
    def end_previous_key(self, request: HttpRequest, notification: Notification) -> HttpResponse:
        action = self._action(request, notification)
        if not action.is_confirmed:
            return self._ask(request, action, "End previous key", [ENDING])
        with transaction.atomic():
            row = locked(notification)
            had_key = row.has_previous_key
            row.save(update_fields=row.end_previous_key())
            if had_key:
                record([acted(row, "Ended the previous signing key.")])
        self.admin.message_user(request, f"{row}: only the current key signs.", messages.SUCCESS)
        return action.leave()

    def _action(self, request: HttpRequest, notification: Notification) -> PendingAction:
        return PendingAction.on_page(request, notification.pk, self.url("change", notification))

    def _ask(self, request: HttpRequest, action: PendingAction, title: str, texts: list[str]) -> HttpResponse:
        table = action.first(self.admin.get_queryset(request), {"State": formatting.state_label})
        return confirmation.ask(request, self.admin, action, title, texts, table)


def locked(notification: Notification) -> Notification:
    return Notification.objects.select_for_update(no_key=True).get(pk=notification.pk)
