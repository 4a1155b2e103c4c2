from django.apps import AppConfig


class RelayersConfig(AppConfig):
    name = "relayers"
