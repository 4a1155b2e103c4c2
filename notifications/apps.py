from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    admin_panels = {"notifications.Notification": ["notifications.panels.LastDeliveries"]}
