from django.apps import AppConfig


class TokensConfig(AppConfig):
    name = "tokens"
    verbose_name = "Access"
    admin_panels = {"tokens.AccessToken": ["tokens.console.activity.Activity"]}
    audit_units = "tokens.console.audit.show_units"
    attention_subjects = {50: "tokens.console.overview.attention"}
    dashboard_cards = {80: "tokens.console.overview.card"}
    getting_started_steps = {50: "tokens.console.overview.step"}

    def ready(self) -> None:
        from tokens import checks  # noqa: F401  # registers the check
