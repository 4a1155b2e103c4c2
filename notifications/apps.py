from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    admin_panels = {"notifications.Notification": ["notifications.panels.LastDeliveries"]}
    attention_subjects = {30: "notifications.attention.webhooks"}
    dashboard_cards = {20: "notifications.dashboard.webhooks", 40: "notifications.dashboard.deliveries"}
