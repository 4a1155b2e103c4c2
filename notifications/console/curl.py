"""The request of a delivery: the headers of an attempt, and the same request as a curl command."""

import shlex
from contextlib import suppress

from django.utils import timezone

from notifications.delivery import signing
from notifications.delivery.posting import request_body
from notifications.models import Attempt, Delivery
from relayer_service.net import outgoing
from relayer_service.net.addresses import mask, without_user_info
from relayer_service.storage.encryption import DecryptionError


def sent_headers(delivery: Delivery, attempt: Attempt, *, with_signature: bool) -> dict[str, str]:
    """Return the headers of an attempt. With a signature, anyone could send the event again."""
    headers = outgoing.HEADERS | signing.headers(delivery.identifier, attempt.started_at, b"", None)
    if attempt.signature:
        headers[signing.SIGNATURE] = attempt.signature if with_signature else "***"
    return headers


def curl(delivery: Delivery, *, with_secrets: bool) -> str:
    """Return a curl command that sends the request, signed now; with a masked URL and unsigned without secrets."""
    target, body = delivery.notification, request_body(delivery)
    key = None
    with suppress(DecryptionError):
        key = target.signing_key if with_secrets else None
    try:
        signed = signing.headers(delivery.identifier, timezone.now(), body, key, target.other_signing_keys())
    except signing.UnusableKey:
        signed = signing.headers(delivery.identifier, timezone.now(), body, None)
    url = without_user_info(target.url) if with_secrets else mask(target.url)
    headers = (f"-H {shlex.quote(f'{name}: {value}')}" for name, value in {**outgoing.HEADERS, **signed}.items())
    lines = ["curl -i -X POST", *headers, f"--data-raw {shlex.quote(body.decode())}", shlex.quote(url)]
    return " \\\n  ".join(lines)
