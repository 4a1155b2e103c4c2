from django.apps import AppConfig


class RelayersConfig(AppConfig):
    name = "relayers"
    signer_follower = "relayers.following.RelayerFollower"
    admin_panels = {"relayers.Relayer": ["relayers.panels.Status", "relayers.panels.TimeLine"]}
    attention_subjects = {20: "relayers.attention.relayers"}
    dashboard_cards = {10: "relayers.dashboard.relayers"}

    def ready(self) -> None:
        # Registers the checks.
        from relayers import checks  # noqa: F401
