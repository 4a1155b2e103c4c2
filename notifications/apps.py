from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    verbose_name = "Webhooks"
    admin_panels = {
        "notifications.Notification": [
            "notifications.status_panel.Status",
            "notifications.key_panel.SigningKey",
            "notifications.panels.LastDeliveries",
        ]
    }
    attention_subjects = {30: "notifications.attention.webhooks"}
    getting_started_steps = {
        30: "notifications.getting_started.webhook",
        40: "notifications.getting_started.event",
    }
    dashboard_cards = {20: "notifications.dashboard.webhooks", 40: "notifications.dashboard.deliveries"}
