"""Verify webhooks of the service, which are signed as specified by Standard Webhooks.

Nothing but the standard library is needed, and Django for `receiver` alone.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from hashlib import sha256
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from relayer_client.errors import RelayerClientError

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    View = Callable[..., HttpResponseBase | Awaitable[HttpResponseBase]]

BASE64_PREFIX = "whsec_"
TOLERANCE_SECONDS = 300
Keys = str | Iterable[str]


class InvalidWebhook(RelayerClientError):
    """A request is not a genuine webhook: answer 401, and do nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """A genuine event; `id` is the same whenever it is delivered again."""

    id: str
    type: str
    timestamp: datetime
    data: dict[str, Any]


def verify(
    body: bytes,
    headers: Mapping[str, str],
    keys: Keys,
    *,
    tolerance: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> Event:
    """Return the event of a request, or raise `InvalidWebhook`.

    `keys` is the signing key, or several while a key is replaced: a signature by any of them suffices. A timestamp
    that differs from now by more than `tolerance` seconds is invalid.
    """
    secrets = [_key_bytes(key) for key in ([keys] if isinstance(keys, str) else keys)]
    try:
        return _verified(body, headers, secrets, tolerance, time.time() if now is None else now)
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise InvalidWebhook("The request is not an event of the service.") from error


def _verified(body: bytes, headers: Mapping[str, str], secrets: list[bytes], tolerance: float, now: float) -> Event:
    values = {name.lower(): value for name, value in headers.items()}
    identifier, timestamp, signatures = (
        values.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")
    )
    if not (identifier and timestamp and signatures):
        raise InvalidWebhook("A header is missing: webhook-id, webhook-timestamp or webhook-signature.")
    if not (timestamp.isascii() and timestamp.isdecimal()):
        raise InvalidWebhook("The timestamp is not a number.")
    if abs(now - int(timestamp)) > tolerance:
        raise InvalidWebhook("The timestamp is too old, or in the future.")
    content = f"{identifier}.{timestamp}.".encode() + body
    given = [value for version, _, value in (each.partition(",") for each in signatures.split()) if version == "v1"]
    expected = [base64.b64encode(hmac.digest(secret, content, sha256)) for secret in secrets]
    # All are compared, whichever matches.
    matches = [hmac.compare_digest(one.encode(), other) for one in given for other in expected]
    if not any(matches):
        raise InvalidWebhook("No signature matches.")
    event = json.loads(body)
    type_, moment, data = event["type"], datetime.fromisoformat(event["timestamp"]), event["data"]
    if not (isinstance(type_, str) and isinstance(data, dict)):
        raise InvalidWebhook("The body is not an event.")
    return Event(id=identifier, type=type_, timestamp=moment, data=data)


def _key_bytes(key: str) -> bytes:
    """Return the bytes of a key: base64 after the standard's prefix, UTF-8 for any other key."""
    if not key.startswith(BASE64_PREFIX):
        result = key.encode()
    else:
        encoded = key.removeprefix(BASE64_PREFIX)
        try:
            result = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
        except binascii.Error:
            result = b""
    if not result:
        raise ValueError("The signing key is empty, or not valid base64 after whsec_.")
    return result


def receiver(
    keys: Keys | Callable[[], Keys], *, tolerance: float = TOLERANCE_SECONDS
) -> Callable[[Callable[..., Any]], View]:
    """Return a decorator for Django views, which are called with the request and its verified `Event`.

    Other requests are answered 401, other methods than POST 405. `keys` can be a function, such as one that reads
    the settings. Views can be coroutines.
    """
    from django.http import HttpResponse, HttpResponseNotAllowed
    from django.views.decorators.csrf import csrf_exempt

    def check(request: HttpRequest) -> Event | HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        try:
            return verify(request.body, request.headers, keys() if callable(keys) else keys, tolerance=tolerance)
        except InvalidWebhook:
            return HttpResponse(status=401)

    def decorate(view: Callable[..., Any]) -> View:
        @wraps(view)
        def receive(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            checked = check(request)
            return view(request, checked, *args, **kwargs) if isinstance(checked, Event) else checked

        @wraps(view)
        async def receive_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            checked = check(request)
            return await view(request, checked, *args, **kwargs) if isinstance(checked, Event) else checked

        return csrf_exempt(receive_async if iscoroutinefunction(view) else receive)

    return decorate
