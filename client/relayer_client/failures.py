"""Failures of httpx and responses of the service: which exception they are, and whether anything can have changed."""

import socket
import ssl
from collections.abc import Iterator

import httpx

from relayer_client import errors

# They cannot have reached the service.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
# Of a 503 that the service itself sent, and did not change anything. The database can also be lost during a commit.
UNCHANGED = frozenset({"busy", "nodes_unavailable", "signer_unavailable", "account_unknown"})
# The server expected something else than TLS, or sent it.
WITHOUT_TLS = frozenset({"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})


def may_have_changed_something(failure: errors.RequestFailed | errors.ApiError) -> bool:
    if isinstance(failure, errors.RequestFailed):
        return not isinstance(failure, errors.ConnectionFailed)
    is_unchanged = failure.status == httpx.codes.SERVICE_UNAVAILABLE and failure.code in UNCHANGED
    return httpx.codes.is_server_error(failure.status) and not is_unchanged


def may_succeed_later(failure: errors.RequestFailed | errors.ApiError) -> bool:
    if isinstance(failure, errors.RequestFailed):
        return True
    return errors.BY_STATUS.get(failure.status) in (errors.Unavailable, errors.TooManyRequests)


def request_failed(error: httpx.RequestError | TimeoutError, key: str | None) -> errors.RequestFailed:
    """Return our exception; the message of the other is not shown, as it may have parts of the URL."""
    if isinstance(error, NOT_SENT):
        return errors.ConnectionFailed(_why_not_connected(error), key)
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return errors.TimedOut("The service did not respond in time.", key)
    if isinstance(error, httpx.TransportError):
        return errors.ConnectionLost("The connection was closed before the response was complete.", key)
    return errors.InvalidResponse("The response cannot be read.", key)


def _why_not_connected(error: Exception) -> str:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"The TLS certificate of the service is not trusted: {cause.verify_message}."
        if isinstance(cause, ssl.SSLError):
            advice = " If the service is reached without TLS, use http://." if cause.reason in WITHOUT_TLS else ""
            return f"The TLS handshake failed ({cause.reason}).{advice}"
        if isinstance(cause, socket.gaierror):
            return "The host name of the service cannot be resolved (DNS)."
        if isinstance(cause, ConnectionRefusedError):
            return "The connection was refused. Check the host and the port, and whether the service runs."
        if isinstance(cause, httpx.ProxyError):
            return "The proxy did not connect to the service. Check its address, user name and password."
        if isinstance(cause, httpx.ConnectTimeout):
            return "No connection was made in time. Check the host, and the firewalls in between."
        if isinstance(cause, httpx.PoolTimeout):
            return "No connection of the pool was free in time."
    return "The service cannot be reached."


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    # httpcore raises its exceptions "from None", but their context is the cause. Any other can be of the caller.
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or (error.__context__ if error.__suppress_context__ else None)
