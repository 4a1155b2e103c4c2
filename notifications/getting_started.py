"""The steps with webhooks: add one, and send it a test event."""

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from notifications import signing
from notifications.emitting import send_test_event
from notifications.events import NOTIFICATION_TEST
from notifications.models import Delivery, Notification
from notifications.writes import NotificationWrite
from relayer_service.admin.getting_started import DEMO, Demo, Step, add_page, local_url

RECEIVER = "/demo/webhook"


def webhook(request: HttpRequest) -> Step:
    return Step(
        "webhook",
        "Add a webhook",
        "The URL that receives events of your relayers.",
        ["notifications.add_notification"],
        Notification.objects.all(),
        lambda: add_page(
            "notifications_notification",
            identifier="webhook-1",
            **({"url": local_url(RECEIVER)} if settings.LOCAL else {}),
        ),
        lambda demo: demo.rows.update({"Webhook": demo_webhook()}),
    )


def demo_webhook() -> Notification:
    """Return the demo's webhook, created if it is missing."""
    found = Notification.objects.filter(identifier=DEMO).first()
    values = {"id": DEMO, "url": local_url(RECEIVER), "signing_key": signing.new_key()}
    return found or NotificationWrite.new(values).save()


def event(request: HttpRequest) -> Step:
    return Step(
        "test-event",
        "Send a test event",
        "Checks that the webhook receives events.",
        ["notifications.view_notification", "notifications.send_delivery"],
        Delivery.objects.filter(event=NOTIFICATION_TEST.name),
        event_page,
        set_up_test_event,
    )


def event_page() -> str:
    """Return the page of the newest webhook, with the button."""
    newest = Notification.objects.order_by("-sequence").first()
    return reverse("admin:notifications_notification_change", args=[newest.pk]) if newest else ""


def set_up_test_event(demo: Demo) -> None:
    hook = demo.rows["Webhook"]
    found = Delivery.objects.filter(event=NOTIFICATION_TEST.name, notification=hook).first()
    demo.rows["Test event"] = found or send_test_event(hook)
