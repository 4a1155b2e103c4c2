from django.apps import AppConfig


class SignersConfig(AppConfig):
    name = "signers"
    getting_started_steps = {10: "signers.console.overview.step"}
