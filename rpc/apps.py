from django.apps import AppConfig


class RpcConfig(AppConfig):
    name = "rpc"
    verbose_name = "JSON-RPC"
    admin_panels = {
        "relayers.Relayer": ["rpc.try_it.TryIt", "rpc.panels.Calls"],
        "rpc.FeeToken": ["rpc.panels.Price"],
    }
    attention_subjects = {40: "rpc.overview.attention"}
    dashboard_cards = {30: "rpc.overview.fee_tokens_card", 50: "rpc.overview.calls_card"}
