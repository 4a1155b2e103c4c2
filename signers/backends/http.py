"""Shared code of backends that call a server: timeouts, bounded retries, and error texts."""

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from relayer_service.net import outgoing, sessions
from relayer_service.net.bounded import AnswerTooLarge
from relayer_service.observability import tracing
from signers.backends.base import Secp256k1Backend, SignerError

# Only for clients with a separate limit for connecting.
CONNECT_SECONDS = 3.0
# Limits of one attempt, and of a call with all its attempts and pauses.
ATTEMPT_SECONDS = 10.0
CALL_SECONDS = 20.0
PAUSES = (0.2, 0.6)
MAX_PAUSE = 5.0
# Far more than a key or a signature.
MAX_ANSWER_BYTES = 65_536

T = TypeVar("T")
# Returns headers and body, called where no frame that raises can show them.
Content = Callable[[], tuple[Mapping[str, str], bytes | None]]


class Unavailable(SignerError):
    """The server cannot be reached, is too busy or is broken: a retry may help."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message, permanent=False)
        self.retry_after = retry_after


class Refused(SignerError):
    """The server refuses the request, and would refuse a retry."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


def deadline() -> float:
    return monotonic() + CALL_SECONDS


def retried(call: Callable[[float], T], until: float) -> T:
    """Return the result of a call that is retried after a pause while the server is unavailable.

    The call takes its timeout in seconds. If the server asks for a longer pause than MAX_PAUSE, it is not retried.
    """
    for pause in PAUSES:
        try:
            return call(min(ATTEMPT_SECONDS, until - monotonic()))
        except Unavailable as fault:
            pause = max(pause, fault.retry_after)
            if pause > min(MAX_PAUSE, until - monotonic()):
                raise
        sleep(pause)
    return call(min(ATTEMPT_SECONDS, until - monotonic()))


@contextmanager
def held(lock: threading.Lock, provider: str, until: float) -> Iterator[None]:
    """Hold a lock whose holder may be waiting for the provider; raise Unavailable at the deadline."""
    if not lock.acquire(timeout=max(0.0, until - monotonic())):
        raise unreachable(provider)
    try:
        yield
    finally:
        lock.release()


def unreachable(provider: str) -> Unavailable:
    return Unavailable(f"{provider} cannot be reached or does not respond in time.")


def not_understood(provider: str) -> SignerError:
    return SignerError(f"{provider} returned an invalid response.", permanent=False)


def refusal(provider: str, status: int, headers: Mapping[str, str]) -> SignerError:
    """Return the error for an HTTP status other than success."""
    if status == 429:
        return Unavailable(f"{provider} is throttling requests.", retry_after=seconds_to_wait(headers))
    if status in (408, 412) or status >= 500:
        return Unavailable(f"{provider} is unavailable (HTTP {status}).", retry_after=seconds_to_wait(headers))
    if status in (401, 403):
        return Refused(f"{provider} refused this signer's credentials (HTTP {status}).", status=status)
    if status == 404:
        return Refused(f"{provider} did not find this signer's key (HTTP 404).", status=status)
    if 300 <= status < 400:
        return SignerError(f"{provider} returned a redirect (HTTP {status}). Check its address.")
    if status >= 400:
        return Refused(f"{provider} refused the request (HTTP {status}). Check the config.", status=status)
    return not_understood(provider)


def seconds_to_wait(headers: Mapping[str, str]) -> float:
    wait = outgoing.parse_retry_after(headers.get("Retry-After", "").strip(), datetime.now(UTC))
    return wait.total_seconds() if wait else 0.0


@dataclass(frozen=True)
class JsonApi:
    """A JSON API, called through the session for untrusted addresses."""

    provider: str
    # The error text for a URL or header that is not valid in HTTP.
    unusable: str
    # Proxies of the environment can reach any address: they are only for the provider's own hosts.
    uses_proxies: bool = True

    def call(self, method: str, url: str, content: Content, until: float) -> dict[str, Any]:
        """Return the JSON object of a response; headers and body are created for each attempt."""
        return retried(lambda seconds: self._try(method, url, content, seconds), until)

    def _try(self, method: str, url: str, content: Content, seconds: float) -> dict[str, Any]:
        answer = self._exchange(method, url, content, seconds)
        if isinstance(answer, SignerError):
            raise answer
        if not 200 <= answer.status < 300:
            raise refusal(self.provider, answer.status, answer.headers)
        found = _json_object(answer.body)
        if found is None:
            raise not_understood(self.provider)
        return found

    def _exchange(self, method: str, url: str, content: Content, seconds: float) -> outgoing.Answer | SignerError:
        """Return a response or an error: raised here, the error would show the secrets of this frame."""
        headers, body = content()
        try:
            return sessions.request(
                method,
                url,
                headers=outgoing.UNCOMPRESSED_HEADERS | tracing.headers() | dict(headers),
                body=body,
                seconds=seconds,
                max_bytes=MAX_ANSWER_BYTES,
                proxy=_proxy_for(url) if self.uses_proxies else None,
            )
        except AnswerTooLarge:
            return not_understood(self.provider)
        except (ValueError, aiohttp.NonHttpUrlClientError):
            return SignerError(self.unusable)
        except (aiohttp.ClientError, OSError) as error:
            if outgoing.is_forbidden(error):
                return SignerError(f"The address of {self.provider} is not allowed.")
            return unreachable(self.provider)


class ClientBackend(Secp256k1Backend):
    """A key behind its provider's client, which threads can share but must not create concurrently."""

    provider: ClassVar[str]

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._lock = threading.Lock()
        self._connected: Any = None

    @abstractmethod
    def _connect(self) -> Any:
        """Return a client that reads only bounded responses."""

    @abstractmethod
    def _try(self, *args: Any, **kwargs: Any) -> Any:
        """Make one attempt at a call."""

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        return retried(lambda _: self._try(*args, **kwargs), deadline())

    def _client(self) -> Any:
        with self._lock:
            if self._connected is None:
                self._connected = self._connect()
            return self._connected


def _json_object(text: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _proxy_for(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
