"""What can fail: one exception per kind of failure, with its data.

`ApiError` and its subclasses are responses of the service, `RpcError` and its subclasses those to a JSON-RPC call.
Codes are those of docs/errors.md; an unknown one raises the class of its status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayer_client.results import Job, Transaction


class RelayerClientError(Exception):
    """Any failure of a call. It can be pickled and copied, with its attributes.

    With `may_have_been_carried_out`, an attempt of the call, not always the last one, may have changed something. The
    logs of the service have the request under `request_id`, which is None if it cannot have arrived.
    """

    may_have_been_carried_out = False
    request_id: str | None = None

    def __str__(self) -> str:
        request = f"Request {self.request_id}: " if self.request_id else ""
        doubt = "The call may have been carried out. " if self.may_have_been_carried_out else ""
        return request + doubt + super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Without `__init__`, whose arguments are not those of the exception.
        return BaseException.__new__, (type(self), *self.args), self.__dict__


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault of a bad request: `path` is its field, if any; `code` is None where the service sends none."""

    path: str
    message: str
    code: str | None


class RequestFailed(RelayerClientError):
    """No response was received.

    Repeating a call with the same `idempotency_key` is safe; None means that the operation accepts none.
    """

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class ConnectionFailed(RequestFailed):
    """No connection was made, and no earlier attempt of the call can have been carried out. It has no `request_id`."""


class ConnectionLost(RequestFailed):
    """The connection was closed before the response was complete, of this or of an earlier attempt of the call."""


class TimedOut(RequestFailed):
    """No response in time."""


class InvalidResponse(RequestFailed):
    """The response is not one of the service, such as a page of a proxy."""


class ApiError(RelayerClientError):
    """The service rejected a call."""

    def __init__(
        self,
        *,
        status: int,
        code: str | None,
        message: str,
        faults: tuple[Fault, ...] = (),
        request_id: str | None = None,
        retry_after: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        details = "; ".join(f"{fault.path}: {fault.message}" if fault.path else fault.message for fault in faults)
        super().__init__(f"{message} ({status}{f', {code}' if code else ''}){f': {details}' if details else ''}")
        self.status = status
        self.code = code
        self.message = message
        self.faults = faults
        self.request_id = request_id
        self.retry_after = retry_after
        self.idempotency_key = idempotency_key


class BadRequest(ApiError):
    """400: the request has the faults that `faults` lists."""


class Unauthorized(ApiError):
    """401: there is no token, or it is not valid."""


class Forbidden(ApiError):
    """403: the token does not allow this."""


class InsufficientScope(Forbidden):
    """The token lacks a scope."""


class RelayerPaused(Forbidden):
    """The relayer is paused."""


class RelayerDisabled(Forbidden):
    """The health check has disabled the relayer."""


class SigningNotAllowed(Forbidden):
    """The relayer's `allow_signing` lacks what is to be signed."""


class SpendingRefused(Forbidden):
    """A spending rule of the relayer or of the token refuses this."""


class NotFound(ApiError):
    """404: there is no such resource, or no such operation."""


class Conflict(ApiError):
    """409: the state of the resource does not allow this."""


class IdTaken(Conflict):
    """Another resource has this ID."""


class InUse(Conflict):
    """Other resources or open transactions refer to the resource."""


class IdempotencyKeyReused(Conflict):
    """The key was sent before with a different body."""


class AccountUnknown(Conflict):
    """The address or the chain ID of the relayer is not known yet."""


class AccountTaken(Conflict):
    """Another relayer sends with this account on this chain."""


class NotChangeable(Conflict):
    """The transaction is mined, final or held."""


class TooManyRequests(ApiError):
    """429: a limit is reached; this attempt changed nothing."""


class QueueFull(TooManyRequests):
    """The relayer has too many transactions that wait."""


class ServerError(ApiError):
    """500: the service failed; its log has the cause under `request_id`."""


class Unavailable(ApiError):
    """502, 503, 504: a part of the service is unavailable."""


class DatabaseUnavailable(Unavailable):
    """The database is unavailable. It may have been lost after it stored a change."""


class NodesUnavailable(Unavailable):
    """No node returned what is needed."""


class SignerUnavailable(Unavailable):
    """The signer did not sign."""


BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
    500: ServerError,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
# By the name of the class, which is the code: `IdTaken` is `id_taken`.
BY_CODE: dict[str, type[ApiError]] = {
    re.sub(r"\B([A-Z])", r"_\1", kind.__name__).lower(): kind
    for parent in set(BY_STATUS.values())
    for kind in parent.__subclasses__()
}
# What ends by itself: a later call may succeed.
TRANSIENT = (RequestFailed, TooManyRequests, Unavailable)
FOREIGN = "The response is not one of the service, but of another server, such as a proxy"
REDIRECTS = frozenset({301, 302, 307, 308})


@contextmanager
def unreadable_as_error(idempotency_key: str | None) -> Iterator[None]:
    """Raise `InvalidResponse` if JSON has another shape than that of the service."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidResponse("The response is not one of the service. Check the URL.", idempotency_key) from error


def api_error(status: int, headers: Mapping[str, str], body: Any, idempotency_key: str | None) -> ApiError:
    """Return the exception of a response."""
    code = headers.get("error-code")
    foreign = _redirect(headers.get("location", "")) if status in REDIRECTS else FOREIGN
    envelope: dict[str, Any] = body if isinstance(body, dict) and "success" in body else {"message": foreign}
    kind = BY_CODE.get(code or "") or BY_STATUS.get(status, ApiError)
    with unreadable_as_error(idempotency_key):
        faults = tuple(_fault(entry) for entry in (envelope.get("metadata") or {}).get("logs", ()))
    return kind(
        status=status,
        code=code,
        message=str(envelope.get("message") or f"HTTP {status}"),
        faults=faults,
        request_id=headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
        idempotency_key=idempotency_key,
    )


def _redirect(location: str) -> str:
    scheme = location.partition("://")[0].lower()
    if scheme not in ("http", "https"):
        return f"{FOREIGN}: it redirects. Check the URL"
    return f"{FOREIGN}: it redirects to {scheme}://. Check the URL, and use {scheme}://"


def _fault(entry: Mapping[str, Any]) -> Fault:
    path, separator, message = str(entry["message"]).partition(": ")
    if not separator or " " in path:
        path, message = "", str(entry["message"])
    return Fault(path=path, message=message, code=entry.get("code"))


def _seconds(retry_after: str | None) -> float | None:
    """Return the header's seconds; the service sends no dates, and those of others are ignored."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None


class RpcError(RelayerClientError):
    """A JSON-RPC call failed."""

    def __init__(self, code: int, message: str, description: str) -> None:
        super().__init__(f"{message} ({code}): {description}")
        self.code = code
        self.message = message
        self.description = description


class MethodNotFound(RpcError):
    """-32601: there is no such method, or its extension is disabled."""


class InvalidParams(RpcError):
    """-32602: the params are wrong."""


class InternalError(RpcError):
    """-32603: the service failed."""


class NodesUnreachable(RpcError):
    """-32000: no node answered."""


class TokenNotSupported(RpcError):
    """-32001: the token is not registered, disabled, or has no price source."""


class PriceUnavailable(RpcError):
    """-32002: there is no price that can be used now."""


class ExecutionReverted(RpcError):
    """-32003: the transaction would revert."""


class PolicyRefused(RpcError):
    """-32004: a policy of the relayer does not allow the transaction."""


class InsufficientData(RpcError):
    """-32005: the chain does not provide what is needed."""


BY_RPC_CODE: dict[int, type[RpcError]] = {
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32000: NodesUnreachable,
    -32001: TokenNotSupported,
    -32002: PriceUnavailable,
    -32003: ExecutionReverted,
    -32004: PolicyRefused,
    -32005: InsufficientData,
}


def rpc_result(response: Mapping[str, Any]) -> Any:
    """Return the result of a JSON-RPC response; raise its error."""
    if isinstance(error := response.get("error"), dict):
        kind = BY_RPC_CODE.get(error["code"], RpcError)
        raise kind(error["code"], str(error["message"]), str(error.get("description", "")))
    return response["result"]


class WaitTimeout(RelayerClientError):
    """A transaction did not reach a status in time; it is still processed.

    `transaction` is its last state, or None if the service could not be reached meanwhile.
    """

    def __init__(self, transaction_id: str, until: str, transaction: Transaction | None) -> None:
        state = f"is {transaction.status}: {transaction.status_reason}" if transaction else "could not be read"
        super().__init__(f"Transaction {transaction_id} is not {until} in time; it {state}")
        self.transaction_id = transaction_id
        self.transaction = transaction


class JobTimeout(RelayerClientError):
    """A job did not end in time; it still runs. `job` is its last state, or None if it could not be read."""

    def __init__(self, job_id: str, job: Job | None) -> None:
        state = f"is {job.state}, {job.done} of {job.total} done" if job else "could not be read"
        super().__init__(f"Job {job_id} has not ended in time; it {state}")
        self.job_id = job_id
        self.job = job


class TransactionUnsuccessful(RelayerClientError):
    """A transaction is final, and did not succeed."""

    def __init__(self, transaction: Transaction) -> None:
        super().__init__(f"Transaction {transaction.id} is {transaction.status}: {transaction.status_reason}")
        self.transaction = transaction


class TransactionFailed(TransactionUnsuccessful):
    """It reverted, or will never be executed."""


class TransactionExpired(TransactionUnsuccessful):
    """It was not executed before `valid_until`."""


class TransactionCanceled(TransactionUnsuccessful):
    """It was canceled, and not executed."""


UNSUCCESSFUL: dict[str, type[TransactionUnsuccessful]] = {
    "failed": TransactionFailed,
    "expired": TransactionExpired,
    "canceled": TransactionCanceled,
}
