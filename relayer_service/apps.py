from django.apps import AppConfig
from django.db.models.signals import post_migrate


class RelayerServiceConfig(AppConfig):
    name = "relayer_service"
    verbose_name = "Operations"

    def ready(self) -> None:
        from relayer_service import checks, counting  # noqa: F401  # the first registers the checks

        post_migrate.connect(counting.after_migrate, sender=self)
