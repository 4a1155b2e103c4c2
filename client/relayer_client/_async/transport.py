"""Requests to the service, repeated where that is safe."""

import logging
import time
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import httpx

from relayer_client import errors
from relayer_client._version import __version__
from relayer_client.checks import check_headers, check_url
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
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        repeatable: bool = False,
        accepted: tuple[int, ...] = (),
        deadline: float | None = None,
    ) -> Any:
        """Return the JSON of a response; raise an error of `relayer_client.errors` for any other than 2xx.

        A request is sent again after a failure that may have reached the service only if it reads, has an
        idempotency key, or is `repeatable`. `deadline`, a time of `time.monotonic`, ends attempts and pauses.
        """
        own = {
            "Authorization": f"Bearer {await self.token.async_read(key)}",
            "Accept": "application/json",
            "Content-Type": None if body is None else "application/json",
            "Idempotency-Key": key,
        }
        headers = self._headers.copy()
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
            failure: errors.RequestFailed | errors.ApiError
            cause: Exception | None = None
            left = None if deadline is None else max(deadline - time.monotonic(), 0.001)
            if left is not None:
                request.extensions["timeout"] = _at_most(left, request.extensions["timeout"])
            try:
                async with async_time_limit(left):
                    response = await http.send(request)
                if response.is_success or response.status_code in accepted:
                    report_generation(path, response.headers)
                    return _json(response, key)
                failure = errors.api_error(response.status_code, response.headers, _json_or_none(response), key)
            except (httpx.RequestError, TimeoutError) as error:
                failure, cause = request_failed(error, key), error
            except errors.InvalidResponse as error:
                error.may_have_been_carried_out = not reads
                raise
            again = may_succeed_later(failure) and (repeatable or not may_have_changed_something(failure))
            pause = self._retries.pause(attempt, getattr(failure, "retry_after", None)) if again else None
            if is_doubtful and isinstance(failure, errors.ConnectionFailed):
                failure = errors.ConnectionLost(str(failure), key)
            is_doubtful = is_doubtful or may_have_changed_something(failure)
            failure.may_have_been_carried_out = is_doubtful and not reads
            if pause is None or (deadline is not None and time.monotonic() + pause >= deadline):
                raise failure from cause
            logger.info("%s %s is sent again in %.1f s: %s", method, path, pause, failure)
            await async_sleep(pause)
            if http.is_closed:
                raise failure from cause


def _at_most(left: float, timeouts: Mapping[str, float | None]) -> dict[str, float]:
    """Return the timeouts of the steps of a request, which has some seconds left."""
    return {name: left if value is None else min(value, left) for name, value in timeouts.items()}


def _json(response: httpx.Response, key: str | None) -> Any:
    try:
        return response.json()
    except ValueError:
        raise errors.InvalidResponse(f"The response is not JSON (HTTP {response.status_code}).", key) from None


def _json_or_none(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None
