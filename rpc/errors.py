"""Errors as data: what a JSON-RPC call can fail with, each with its code; `docs/rpc.md` says what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from chain import errors as chain
from relayers import policies


class RpcError(Exception):
    """A failure that the answer shows. The description is written here and contains nothing secret."""

    code: ClassVar[int]
    message: ClassVar[str]
    # What was asked for cannot be: the service, its nodes and its prices work.
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
        super().__init__("The call failed for a reason inside the service; its log has it under the request id.")


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


# The codes of errors that callers cause; -32600, an invalid request, is one by the standard.
CLIENT_ERRORS = {"-32600"} | {str(error.code) for error in RpcError.__subclasses__() if error.is_client_error}
MESSAGES = {str(error.code): error.message for error in RpcError.__subclasses__()}

CHAIN_FAULTS: dict[type[chain.ChainFault], type[RpcError]] = {
    chain.NodesUnreachable: NodesUnreachable,
    chain.ExecutionReverted: ExecutionReverted,
    chain.CannotBeIncluded: ExecutionReverted,
    chain.InsufficientData: InsufficientData,
}


@contextmanager
def chain_faults() -> Iterator[None]:
    """Raise the faults of the chain as the errors that callers get."""
    try:
        yield
    except chain.ChainFault as fault:
        raise CHAIN_FAULTS[type(fault)](str(fault)) from None


@contextmanager
def policy_refusals() -> Iterator[None]:
    """Raise what a relayer's policies refuse as the errors that callers get."""
    try:
        yield
    except policies.GasLimitRequired as refusal:
        raise InvalidParams(f"transaction: {refusal}") from None
    except policies.PolicyRefused as refusal:
        raise PolicyRefused(str(refusal)) from None
