"""The JSON-RPC methods that can be called through a relayer, one file each."""

from relayer_service import extensions
from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimate
from rpc.methods.fee_quote import FeeQuote

# By network type and name, whether or not their extensions are enabled.
METHODS: dict[tuple[str, str], Method] = {
    (method.network_type, method.name): method for method in [FeeEstimate(), FeeQuote()]
}


def available_methods() -> list[Method]:
    """Return the methods of the contract and of the enabled extensions."""
    return [method for method in METHODS.values() if extensions.is_enabled(method.extension)]


def find_method(network_type: str, name: str) -> Method | None:
    method = METHODS.get((network_type, name))
    return method if method is not None and extensions.is_enabled(method.extension) else None
