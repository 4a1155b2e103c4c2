from django.apps import AppConfig


class NotificationsConfig(AppConfig):
    name = "notifications"
    verbose_name = "Webhooks"
    admin_panels = {
        "notifications.Notification": [
            "notifications.console.status.Status",
            "notifications.console.signing_key.SigningKey",
            "notifications.console.panels.LastDeliveries",
        ]
    }
    attention_subjects = {30: "notifications.console.overview.attention"}
    getting_started_steps = {
        30: "notifications.console.overview.webhook_step",
        40: "notifications.console.overview.event_step",
    }
    dashboard_cards = {
        20: "notifications.console.overview.webhooks_card",
        40: "notifications.console.overview.deliveries_card",
    }
