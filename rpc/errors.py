"""The errors of JSON-RPC calls, each with its code; `docs/rpc.md` lists their causes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from chain import errors as chain
from relayers import policies


class RpcError(Exception):
    """A failure that the response contains. Its description never contains a foreign error."""

    code: ClassVar[int]
    message: ClassVar[str]
    # Whether the request is at fault, not the service, its nodes or its prices.
    is_client_error: ClassVar[bool] = False

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.description = description

    def body(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "description": self.description}


class MethodNotFound(RpcError):
    code = -32601
    message = "Method not found"
    is_client_error = True


class InvalidParams(RpcError):
    code = -32602
    message = "Invalid params"
    is_client_error = True


class InternalError(RpcError):
    code = -32603
    message = "Internal error"

    def __init__(self) -> None:
        super().__init__(
            "The call failed because of an internal error. The service's log has the cause under the request ID."
        )


class NodesUnreachable(RpcError):
    code = -32000
    message = "Nodes unreachable"


class TokenNotSupported(RpcError):
    code = -32001
    message = "Token not supported"
    is_client_error = True


class PriceUnavailable(RpcError):
    code = -32002
    message = "Price unavailable"


class ExecutionReverted(RpcError):
    code = -32003
    message = "Execution reverted"
    is_client_error = True


class PolicyRefused(RpcError):
    code = -32004
    message = "Policy refused"
    is_client_error = True


class InsufficientData(RpcError):
    code = -32005
    message = "Insufficient data"


# -32600 is the code of an invalid request in the JSON-RPC standard.
CLIENT_ERRORS = {"-32600"} | {str(error.code) for error in RpcError.__subclasses__() if error.is_client_error}
MESSAGES = {str(error.code): error.message for error in RpcError.__subclasses__()}

CHAIN_FAULTS: dict[type[chain.ChainFault], type[RpcError]] = {
    chain.NodesUnreachable: NodesUnreachable,
    chain.ExecutionReverted: ExecutionReverted,
    chain.CannotBeIncluded: ExecutionReverted,
    chain.InsufficientData: InsufficientData,
}


@contextmanager
def as_rpc_errors() -> Iterator[None]:
    """Raise the faults of the chain and the refusals of a relayer's policies as JSON-RPC errors."""
    try:
        yield
    except chain.ChainFault as fault:
        raise CHAIN_FAULTS[type(fault)](str(fault)) from None
    except policies.GasLimitRequired as refusal:
        raise InvalidParams(f"transaction: {refusal}") from None
    except policies.PolicyRefused as refusal:
        raise PolicyRefused(str(refusal)) from None
