from django.apps import AppConfig


class RelayerServiceConfig(AppConfig):
    name = "relayer_service"
    verbose_name = "Operations"

    def ready(self) -> None:
        from relayer_service import checks  # noqa: F401  # registers them
