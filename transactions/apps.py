from django.apps import AppConfig


class TransactionsConfig(AppConfig):
    name = "transactions"
    relayer_guard = "transactions.guards.LaneGuard"
    admin_panels = {
        "transactions.Transaction": ["transactions.panels.Progress", "transactions.panels.Attempts"],
        "transactions.Lane": ["transactions.strip_panel.Strip", "transactions.panels.LaneState"],
        "relayers.Relayer": [
            "transactions.strip_panel.Strip",
            "transactions.panels.RelayerLane",
            "transactions.topups.panels.RelayerFunding",
            "transactions.gas_panel.RelayerGas",
        ],
    }
    attention_subjects = {25: "transactions.overview.attention"}
    dashboard_cards = {15: "transactions.overview.card"}
    getting_started_steps = {60: "transactions.overview.step"}

    def ready(self) -> None:
        from transactions import checks  # noqa: F401  # registers the checks
