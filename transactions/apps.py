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
    attention_subjects = {25: "transactions.attention.transactions"}
    dashboard_cards = {15: "transactions.dashboard.transactions"}
    getting_started_steps = {60: "transactions.getting_started.first_transaction"}

    def ready(self) -> None:
        from transactions import checks  # noqa: F401  # registers the checks
