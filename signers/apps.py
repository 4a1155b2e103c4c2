from django.apps import AppConfig


class SignersConfig(AppConfig):
    name = "signers"
