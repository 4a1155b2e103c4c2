from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"
    verbose_name = "Access"
    attention_subjects = {50: "tokens.attention.access_tokens"}
    dashboard_cards = {80: "tokens.dashboard.recently_used"}
    getting_started_steps = {50: "tokens.getting_started.token"}

    def ready(self) -> None:
        from tokens import checks  # noqa: F401  # registers the check
