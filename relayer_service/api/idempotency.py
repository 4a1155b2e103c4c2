"""Idempotency keys: a request that creates something and is sent twice creates it once.

The answer is stored in the transaction that creates the resource, under the token, the route and the key. Of two
requests at once the second waits for the first one's row, and gets its answer. A request that fails stores nothing:
it can be sent again.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.viewsets import GenericViewSet

from relayer_service import extensions
from relayer_service.api.exceptions import Conflict
from relayer_service.models import IDEMPOTENCY_KEPT, IdempotentRequest
from relayer_service.storage.nul import has_nul

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotent-Replayed": "true"}
Prepared = TypeVar("Prepared")

# Without commas: a header that is sent twice reads as one with a comma between the values (RFC 9110, 5.3).
KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,255}")
MAX_ROUTE = 1024
OTHER_BODY = "The Idempotency-Key was used with another body"


def extension(view: Any) -> str:
    """Return the extension by which a view's action takes a key; an empty name if it takes none."""
    declared: str = getattr(view, "idempotent_actions", {}).get(view.action, "")
    return declared if extensions.is_on(declared) else ""


def read_key(view: GenericViewSet[Any]) -> str | None:
    """Return the key of a request; None without one, or for an action that takes none."""
    key = view.request.headers.get(HEADER)
    if key is None or not extension(view):
        return None
    if not KEY.fullmatch(key):
        raise ValidationError({HEADER: ["one key of 1 to 255 visible ASCII characters without commas is required"]})
    return key


def from_request(view: GenericViewSet[Any]) -> IdempotentRequest | None:
    """Return what a request's key stands for, not stored yet; None for a request without one."""
    request, key = view.request, read_key(view)
    if key is None or has_nul(request.path):
        # It can be stored for no such path, which names nothing that exists.
        return None
    route = f"{request.method} {request.path.rstrip('/')}"[:MAX_ROUTE]
    return IdempotentRequest(token_key=request.auth.key, route=route, key=key, digest=digest(request))


def digest(request: Request) -> str:
    """Return a keyed digest of the body, which may hold secrets."""
    body = json.dumps(request.data, sort_keys=True).encode()
    return hmac.new(settings.SECRET_KEY.encode(), b"idempotency:" + body, hashlib.sha256).hexdigest()


def run_idempotently(
    view: GenericViewSet[Any],
    prepare: Callable[[], Prepared],
    carry_out: Callable[[Prepared], Any],
    *,
    in_transaction: bool = True,
) -> HttpResponse:
    """Answer an action with 201 and what it creates, or with the answer that the same request had before.

    `prepare` checks the request, which may take asking others; `carry_out` runs in a transaction, unless it needs
    none and there is no key to store with what it does.
    """
    request, key = view.request, from_request(view)
    if key and (answered := find(key)):
        return answered
    prepared = prepare()
    with transaction.atomic() if key or in_transaction else nullcontext():
        if key and (answered := claim(key)):
            return answered
        body: bytes = request.accepted_renderer.render(carry_out(prepared))  # type: ignore[assignment]  # ours gives bytes
        if key:
            store(key, HTTPStatus.CREATED, body)
    return HttpResponse(body, status=HTTPStatus.CREATED, content_type=request.accepted_renderer.media_type)


def find(wanted: IdempotentRequest) -> HttpResponse | None:
    """Return the answer that a request with the same key had; refuse one that had another body."""
    found = IdempotentRequest.objects.filter(
        token_key=wanted.token_key, route=wanted.route, key=wanted.key, at__gt=timezone.now() - IDEMPOTENCY_KEPT
    ).first()
    if found is None or found.pk == wanted.pk:
        return None
    if not hmac.compare_digest(found.digest, wanted.digest):
        raise Conflict(OTHER_BODY)
    return HttpResponse(found.body, status=found.status, content_type="application/json", headers=REPLAYED)


def claim(wanted: IdempotentRequest) -> HttpResponse | None:
    """Store a key before its request is carried out, in the same transaction; return the answer of an earlier one."""
    old = IdempotentRequest.objects.filter(token_key=wanted.token_key, route=wanted.route, key=wanted.key)
    old.filter(at__lte=timezone.now() - IDEMPOTENCY_KEPT).delete()
    # This waits for a transaction that has stored the same key, until it is known how that ends.
    IdempotentRequest.objects.bulk_create([wanted], ignore_conflicts=True)
    return find(wanted)


def store(wanted: IdempotentRequest, status: int, body: bytes) -> None:
    """Store the answer, to be given again."""
    IdempotentRequest.objects.filter(pk=wanted.pk).update(status=status, body=body.decode())
