"""Requests to the service, repeated where that is safe."""

import logging
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx

from relayer_client import errors
from relayer_client.encoding import query_string, to_json
from relayer_client.retries import Retries
from relayer_client.wakeups import async_sleep

logger = logging.getLogger("relayer_client")

PREFIX = "/api/v1"
# They cannot have reached the service.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# Of a response that the service itself sent, and did not change anything.
UNCHANGED = frozenset({"busy", "database_unavailable", "nodes_unavailable", "signer_unavailable", "account_unknown"})


def new_key() -> str:
    """Return an `Idempotency-Key`: one per call, however often its request is sent."""
    return str(uuid4())


class AsyncTransport:
    """One connection pool with a token."""

    def __init__(
        self, url: str, token: str, *, timeout: float, retries: Retries, http: httpx.AsyncClient | None
    ) -> None:
        self._url = url.rstrip("/") + PREFIX
        self.token = token
        self._retries = retries
        self._http = http or httpx.AsyncClient(timeout=timeout)

    async def close(self) -> None:
        await self._http.aclose()

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
    ) -> Any:
        """Return the JSON of a response; raise an error of `relayer_client.errors` for any other than 2xx.

        A request is sent again after a failure that may have reached the service only if it reads, has an
        idempotency key, or is `repeatable`.
        """
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = self._http.build_request(
            method,
            self._url + path,
            params=query_string(query or {}),
            content=None if body is None else to_json(body),
            headers=headers,
        )
        repeatable = repeatable or method == "GET" or key is not None
        attempt = 0
        while True:
            attempt += 1
            failure: errors.RequestFailed | errors.ApiError
            try:
                response = await self._http.send(request)
                if response.is_success or response.status_code in accepted:
                    return _json(response, key)
                failure = errors.api_error(response.status_code, response.headers, _json_or_none(response), key)
                again, retry_after = _may_repeat(failure, repeatable), failure.retry_after
            except httpx.RequestError as error:
                failure = _request_failed(error, key)
                again, retry_after = repeatable or isinstance(error, NOT_SENT), None
            pause = self._retries.pause(attempt, retry_after) if again else None
            if pause is None:
                raise failure
            logger.info("%s %s is sent again in %.1f s: %s", method, path, pause, failure)
            await async_sleep(pause)


def _may_repeat(failure: errors.ApiError, repeatable: bool) -> bool:
    nothing_changed = failure.status == httpx.codes.SERVICE_UNAVAILABLE and failure.code in UNCHANGED
    if failure.status == httpx.codes.TOO_MANY_REQUESTS or nothing_changed:
        return True
    return repeatable and errors.BY_STATUS.get(failure.status) is errors.Unavailable


def _request_failed(error: httpx.RequestError, key: str | None) -> errors.RequestFailed:
    """Return our exception; the message of the other is not shown, as it may have parts of the URL."""
    if isinstance(error, NOT_SENT):
        return errors.ConnectionFailed("The service cannot be reached.", key)
    if isinstance(error, httpx.TimeoutException):
        return errors.TimedOut("The service did not respond in time.", key)
    if isinstance(error, httpx.TransportError):
        return errors.ConnectionLost("The connection was closed before the response was complete.", key)
    return errors.InvalidResponse("The response cannot be read.", key)


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
