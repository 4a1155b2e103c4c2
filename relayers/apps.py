from django.apps import AppConfig


class RelayersConfig(AppConfig):
    name = "relayers"
    admin_panels = {"relayers.Relayer": ["relayers.panels.Status", "relayers.panels.TimeLine"]}

    def ready(self) -> None:
        # Registers the checks.
        from relayers import checks  # noqa: F401
