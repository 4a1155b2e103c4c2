"""Requests to the service, repeated where that is safe."""

import logging
import time
from collections.abc import Callable, Mapping
from copy import copy
from secrets import token_hex
from typing import Any, Self

import httpx

from relayer_client import errors
from relayer_client._version import __version__
from relayer_client.checks import check_floats, check_headers, check_url
from relayer_client.encoding import query_string, to_json
from relayer_client.failures import may_have_changed_something, may_succeed_later, request_failed
from relayer_client.generations import report_generation
from relayer_client.pools import AsyncPools
from relayer_client.retries import Retries
from relayer_client.tokens import AsyncToken, TokenSource
from relayer_client.wakeups import async_sleep, async_time_limit

logger = logging.getLogger("relayer_client")

PREFIX = "/api/v1"
USER_AGENT = f"relayer-client-python/{__version__}"


class AsyncTransport:
    """Connections with a token, which copies share."""

    def __init__(
        self, url: str, token: AsyncToken, pools: AsyncPools, retries: Retries, headers: Mapping[str, str]
    ) -> None:
        check_url(url)
        self.url: str = url.rstrip("/")
        self.token: TokenSource = TokenSource(token)
        self._pools = pools
        self._retries = retries
        self._headers = httpx.Headers({"user-agent": USER_AGENT, **check_headers(headers)})
        self._timeout: Any = httpx.USE_CLIENT_DEFAULT
        self._is_copy = False

    def with_options(
        self, token: AsyncToken | None, timeout: float | None, retries: Retries | None, headers: Mapping[str, str]
    ) -> Self:
        copied = copy(self)
        copied._is_copy = True
        copied.token = self.token if token is None else TokenSource(token)
        copied._timeout = self._timeout if timeout is None else timeout
        copied._retries = retries or self._retries
        copied._headers = httpx.Headers({**self._headers, **check_headers(headers)})
        return copied

    async def close(self) -> None:
        """Close the connections, unless they are those of the original."""
        if not self._is_copy and (pool := self._pools.close()):
            await pool.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        read: Callable[[Any], Any] = lambda body: body,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        repeatable: bool = False,
        accepted: tuple[int, ...] = (),
        deadline: float | None = None,
    ) -> Any:
        """Return what `read` finds in the JSON of a response; raise an error of `errors` for any other than 2xx.

        A request is sent again after a failure that may have reached the service only if it reads, has an
        idempotency key, or is `repeatable`. `deadline`, a time of `time.monotonic`, ends attempts and pauses.
        """
        check_floats(body)
        own = {
            "Authorization": f"Bearer {await self.token.async_read(key)}",
            "Accept": "application/json",
            "Content-Type": None if body is None else "application/json",
            "Idempotency-Key": key,
        }
        headers = self._headers.copy()
        sent_id = headers.setdefault("X-Request-ID", token_hex(10))
        headers.update({name: value for name, value in own.items() if value is not None})
        http = self._pools.current()
        request = http.build_request(
            method,
            self.url + PREFIX + path,
            params=query_string(query or {}),
            content=None if body is None else to_json(body),
            headers=headers,
            timeout=self._timeout,
        )
        reads = method == "GET"
        repeatable = repeatable or reads or key is not None
        attempt, is_doubtful = 0, False
        while True:
            attempt += 1
            request_id = sent_id
            failure: errors.RequestFailed | errors.ApiError
            cause: Exception | None = None
            started = time.monotonic()
            left = None if deadline is None else max(deadline - started, 0.001)
            if left is not None:
                request.extensions["timeout"] = _at_most(left, request.extensions["timeout"])
            try:
                async with async_time_limit(left):
                    response = await http.send(request)
                seconds = time.monotonic() - started
                # The service replaces some.
                request_id = response.headers.get("x-request-id", sent_id)
                logger.debug(
                    "Request %s: %s %s: %d in %.3f s", request_id, method, path, response.status_code, seconds
                )
                if response.is_success or response.status_code in accepted:
                    report_generation(path, response.headers)
                    return _result(response, key, read)
                failure = errors.api_error(response.status_code, response.headers, _json_or_none(response), key)
            except (httpx.RequestError, TimeoutError) as error:
                failure, cause = request_failed(error, key), error
            except (errors.InvalidResponse, errors.RpcError) as error:
                error.request_id = request_id
                is_doubtful = is_doubtful or isinstance(error, errors.InvalidResponse)
                error.may_have_been_carried_out = is_doubtful and not reads
                raise
            again = may_succeed_later(failure) and (repeatable or not may_have_changed_something(failure))
            pause = self._retries.pause(attempt, getattr(failure, "retry_after", None)) if again else None
            if is_doubtful and isinstance(failure, errors.ConnectionFailed):
                failure = errors.ConnectionLost(str(failure), key)
            if may_have_changed_something(failure):
                is_doubtful = True
                failure.request_id = failure.request_id or request_id
            failure.may_have_been_carried_out = is_doubtful and not reads
            if pause is None or (deadline is not None and time.monotonic() + pause >= deadline):
                raise failure from cause
            logger.info("%s %s is sent again in %.1f s (attempt %d failed): %s", method, path, pause, attempt, failure)
            await async_sleep(pause)
            if http.is_closed:
                raise failure from cause


def _at_most(left: float, timeouts: Mapping[str, float | None]) -> dict[str, float]:
    """Return the timeouts of the steps of a request, which has some seconds left."""
    return {name: left if value is None else min(value, left) for name, value in timeouts.items()}


def _result(response: httpx.Response, key: str | None, read: Callable[[Any], Any]) -> Any:
    """Return what `read` finds in a response."""
    try:
        body = response.json()
    except ValueError:
        raise errors.InvalidResponse(f"The response is not JSON (HTTP {response.status_code}).", key) from None
    with errors.unreadable_as_error(key):
        return read(body)


def _json_or_none(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
