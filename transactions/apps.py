from django.apps import AppConfig


class TransactionsConfig(AppConfig):
    name = "transactions"
    last_transactions = "transactions.console.panels.last_transactions"
    sweep_link = "transactions.console.sweeping.sweep_link"
    admin_panels = {
        "transactions.Transaction": [
            "transactions.console.panels.Progress",
            "transactions.console.panels.Attempts",
            "transactions.console.deliveries.Deliveries",
        ],
        "transactions.Lane": ["transactions.console.stuck.panel.StuckPanel", "transactions.console.panels.LaneState"],
        "relayers.Relayer": [
            "transactions.console.stuck.panel.StuckPanel",
            "transactions.console.panels.RelayerLane",
            "transactions.console.top_ups.RelayerFunding",
            "transactions.console.sweeping.Sweep",
            "transactions.console.panels.RelayerGas",
        ],
        "tokens.AccessToken": ["transactions.console.token_activity.TokenTransactions"],
    }
    audit_units = "transactions.console.audit.show_units"
    attention_subjects = {25: "transactions.console.overview.attention"}
    dashboard_cards = {15: "transactions.console.overview.card"}
    getting_started_steps = {60: "transactions.console.overview.step"}

    def ready(self) -> None:
        from transactions import checks  # noqa: F401  # registers the checks
