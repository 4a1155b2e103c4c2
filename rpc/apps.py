from django.apps import AppConfig


class RpcConfig(AppConfig):
    name = "rpc"
    verbose_name = "JSON-RPC"
    admin_panels = {
        "relayers.Relayer": ["rpc.console.try_it.TryIt", "rpc.console.panels.Calls"],
        "rpc.FeeToken": ["rpc.console.panels.Price"],
    }
    symbols = "rpc.console.formatting.find_symbols"
    attention_subjects = {40: "rpc.console.overview.attention"}
    dashboard_cards = {30: "rpc.console.overview.fee_tokens_card", 50: "rpc.console.overview.calls_card"}
