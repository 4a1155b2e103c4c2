"""The events about webhooks themselves."""

from __future__ import annotations

from typing import TypedDict

from notifications.catalogue import Event


class NotificationData(TypedDict):
    notification_id: str


class NotificationFailingData(NotificationData):
    failing_since: str
    error: str


NOTIFICATION_TEST = Event("notification.test", NotificationData, "Staff try whether a webhook arrives.")
NOTIFICATION_FAILING = Event(
    "notification.failing", NotificationFailingData, "Attempts at another webhook have begun to fail."
)
NOTIFICATION_GONE = Event(
    "notification.gone", NotificationData, "Another webhook has answered 410, and nothing more is sent to it."
)
# Events about one target that others get.
ABOUT_TARGETS = {NOTIFICATION_FAILING.name, NOTIFICATION_GONE.name}
