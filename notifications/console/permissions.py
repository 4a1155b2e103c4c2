"""What staff may do with webhooks and their deliveries."""

from django.http import HttpRequest


def may_change(request: HttpRequest) -> bool:
    """Return whether the user may configure webhooks, and so see full URLs, signatures and answers."""
    return bool(request.user.has_perm("notifications.change_notification"))


def may_send(request: HttpRequest) -> bool:
    """Return whether the user may send test events, and retry and replay deliveries."""
    return bool(request.user.has_perm("notifications.send_delivery"))
