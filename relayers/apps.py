from django.apps import AppConfig


class RelayersConfig(AppConfig):
    name = "relayers"
    admin_panels = {"relayers.Relayer": ["relayers.panels.Status"]}
