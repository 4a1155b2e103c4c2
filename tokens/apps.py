from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"
    verbose_name = "Access"
    attention_subjects = {50: "tokens.overview.attention"}
    dashboard_cards = {80: "tokens.overview.card"}
    getting_started_steps = {50: "tokens.overview.step"}

    def ready(self) -> None:
        from tokens import checks  # noqa: F401  # registers the check
