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
    attention_subjects = {30: "notifications.overview.attention"}
    getting_started_steps = {
        30: "notifications.overview.webhook_step",
        40: "notifications.overview.event_step",
    }
    dashboard_cards = {20: "notifications.overview.webhooks_card", 40: "notifications.overview.deliveries_card"}
