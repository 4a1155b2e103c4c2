from django.apps import AppConfig


class RpcConfig(AppConfig):
    name = "rpc"
    verbose_name = "JSON-RPC"
    admin_panels = {
        "relayers.Relayer": ["rpc.try_it.TryIt", "rpc.panels.Calls"],
        "rpc.FeeToken": ["rpc.panels.Price"],
    }
    attention_subjects = {40: "rpc.attention.fee_tokens"}
    dashboard_cards = {30: "rpc.dashboard.fee_tokens", 50: "rpc.dashboard.calls"}
