"""What the backends that talk to a server share: time limits, bounded retries, and failures told in words."""

from __future__ import annotations

import ssl
import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from time import sleep
from typing import Any, ClassVar, TypeVar

import httpx

from signers.backends.base import SignerError

CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 10.0
PAUSES = (0.2, 0.6)
LONGEST_PAUSE = 5.0

T = TypeVar("T")


class Unavailable(SignerError):
    """The server cannot be reached, is too busy or is broken: what it may get over by itself."""

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message, permanent=False)
        self.retry_after = retry_after


class Refused(SignerError):
    """The server will not do it, however often it is asked."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message, permanent=True)
        self.status = status


def retried(call: Callable[[], T]) -> T:
    """Give the result of a call that is made again, after a pause, while the server is unavailable.

    A server that asks for a longer pause than a caller can be kept waiting for is not asked again.
    """
    for pause in PAUSES:
        try:
            return call()
        except Unavailable as fault:
            pause = max(pause, fault.retry_after)
            if pause > LONGEST_PAUSE:
                raise
        sleep(pause)
    return call()


def unreachable(provider: str) -> Unavailable:
    return Unavailable(f"{provider} cannot be reached or does not answer in time.")


def not_understood(provider: str) -> SignerError:
    return SignerError(f"{provider} gave an answer that is not understood.", permanent=False)


def refusal(provider: str, status: int, headers: Mapping[str, str]) -> SignerError:
    """Tell what an HTTP status other than success means for a signer."""
    if status == 429:
        return Unavailable(f"{provider} is throttling requests.", retry_after=seconds_to_wait(headers))
    if status in (408, 412) or status >= 500:
        return Unavailable(f"{provider} is unavailable (HTTP {status}).", retry_after=seconds_to_wait(headers))
    if status in (401, 403):
        return Refused(f"{provider} refused this signer's credentials (HTTP {status}).", status=status)
    if status == 404:
        return Refused(f"{provider} does not know this signer's key (HTTP 404).", status=status)
    if status >= 400:
        return Refused(f"{provider} refused the request (HTTP {status}): check the configuration.", status=status)
    return not_understood(provider)


def seconds_to_wait(headers: Mapping[str, str]) -> float:
    """Read Retry-After, which is a number of seconds or a date; anything else asks for nothing."""
    value = headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


@cache
def _tls() -> ssl.SSLContext:
    """Read the trusted certificates once: it takes longer than a request."""
    return httpx.create_ssl_context()


class JsonApi:
    """A provider's JSON API, spoken over connections that are kept and shared by threads."""

    read_timeout: ClassVar[float] = READ_TIMEOUT

    def __init__(self, provider: str) -> None:
        self.provider = provider
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def post(self, url: str, body: bytes, headers: Callable[[], Mapping[str, str]]) -> dict[str, Any]:
        """Post a body and give the JSON object of the answer; the headers are made anew for each try."""
        return retried(lambda: self._post(url, body, headers()))

    def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        try:
            answer = self._connections().post(
                url, content=body, headers={"Content-Type": "application/json", **headers}
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol):
            raise SignerError(f"The address of {self.provider} is not a URL.", permanent=True) from None
        except httpx.HTTPError:
            raise unreachable(self.provider) from None
        if not answer.is_success:
            raise refusal(self.provider, answer.status_code, answer.headers)
        try:
            content = answer.json()
        except ValueError:
            raise not_understood(self.provider) from None
        if not isinstance(content, dict):
            raise not_understood(self.provider)
        return content

    def _connections(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                self._client = httpx.Client(
                    verify=_tls(), timeout=httpx.Timeout(self.read_timeout, connect=CONNECT_TIMEOUT)
                )
                # A backend is dropped, not closed: its connections go with it.
                weakref.finalize(self, self._client.close)
            return self._client
