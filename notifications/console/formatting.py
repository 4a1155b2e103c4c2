"""The state of a webhook, as lists and pages show it."""

from django.utils.html import format_html

from notifications.models import Notification
from relayer_service.console.dates import to_the_minute
from relayer_service.console.overview.dashboard import label


def is_retried(notification: Notification) -> bool:
    """Return whether one delivery at a time is tried, and the others wait until one arrives."""
    return notification.enabled and notification.failing_since is not None and notification.gone_at is None


def state(notification: Notification) -> tuple[str, str, str]:
    """Return the name of the state, the variant of its label, and its reason or start."""
    if not notification.enabled:
        return "Stopped", "info", "disabled"
    if notification.gone_at:
        return "Stopped", "danger", f"returned 410 at {to_the_minute(notification.gone_at)}"
    if notification.failing_since:
        return "Failing, retrying", "warning", f"since {to_the_minute(notification.failing_since)}"
    if not notification.tried:
        return "Not tried yet", "info", ""
    return "Working", "success", ""


def state_label(notification: Notification) -> str:
    name, variant, _ = state(notification)
    return label(name, variant)


def state_with_details(notification: Notification) -> str:
    details = state(notification)[2]
    return format_html("{} {}", state_label(notification), details) if details else state_label(notification)
