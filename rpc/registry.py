"""The JSON-RPC methods that can be called through a relayer; each is a file in `rpc/methods`."""

from relayer_service import extensions
from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimate
from rpc.methods.fee_quote import FeeQuote

# By network type and name, whether or not their extensions are on.
METHODS: dict[tuple[str, str], Method] = {
    (method.network_type, method.name): method for method in [FeeEstimate(), FeeQuote()]
}


def methods() -> list[Method]:
    """Return the methods that can be called: those of the contract and of the extensions that are on."""
    return [method for method in METHODS.values() if extensions.is_enabled(method.extension)]


def find(network_type: str, name: str) -> Method | None:
    """Return a method that can be called."""
    method = METHODS.get((network_type, name))
    return method if method is not None and extensions.is_enabled(method.extension) else None
