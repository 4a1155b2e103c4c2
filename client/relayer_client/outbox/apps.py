from django.apps import AppConfig
from django.core.checks import register


class OutboxConfig(AppConfig):
    name = "relayer_client.outbox"
    label = "relayer_outbox"
    verbose_name = "Relayer outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from relayer_client.outbox.configuration import check_database, check_settings

        register(check_settings)
        register(check_database)
