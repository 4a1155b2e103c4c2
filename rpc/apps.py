from django.apps import AppConfig


class RpcConfig(AppConfig):
    name = "rpc"
    verbose_name = "JSON-RPC"
    admin_panels = {
        "relayers.Relayer": ["rpc.panels.TryEstimate", "rpc.panels.Calls"],
        "rpc.FeeToken": ["rpc.panels.Price"],
    }
