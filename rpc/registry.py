"""The JSON-RPC methods that can be called through a relayer; each is a file in `rpc/methods`."""

from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimate

# By network type and name.
METHODS: dict[tuple[str, str], Method] = {(method.network_type, method.name): method for method in [FeeEstimate()]}
