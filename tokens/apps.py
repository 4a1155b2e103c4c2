from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"
    verbose_name = "Access"

    def ready(self) -> None:
        # Registers the checks.
        from tokens import checks  # noqa: F401
