"""Idempotency keys: a create request that is sent again creates nothing, and returns the first response.

The response is stored in the transaction that creates the resource, by token, route and key. A concurrent request
with the same key waits for that transaction and returns its response. A request that fails stores nothing and can be
retried.
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
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from rest_framework.exceptions import ValidationError
from rest_framework.viewsets import GenericViewSet

from relayer_service import extensions
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Conflict
from relayer_service.database.nul import has_nul
from relayer_service.models import IDEMPOTENCY_KEPT, IdempotentRequest

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotent-Replayed": "true"}
Prepared = TypeVar("Prepared")

# Without commas: a repeated header is read as one value with a comma (RFC 9110, 5.3).
KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]{1,255}")
MAX_ROUTE = 1024
OTHER_BODY = "The Idempotency-Key was already used with a different body"


def extension(view: Any) -> str:
    """Return the extension that lets an operation accept a key; an empty name if it accepts none."""
    return view.extension if view.operation.idempotent and extensions.is_enabled(view.extension) else ""


def read_key(view: GenericViewSet[Any]) -> str | None:
    """Return the key of a request; None without one, or for an action that accepts none."""
    key = view.request.headers.get(HEADER)
    if key is None or not extension(view):
        return None
    if not KEY.fullmatch(key):
        raise ValidationError({HEADER: ["one key of 1 to 255 visible ASCII characters without commas is required"]})
    return key


def body_digest(body: Any) -> str:
    """Return a hash of a JSON body, whatever the order of its fields; keyed, as the body may contain secrets."""
    canonical = b"idempotency:" + json.dumps(body, sort_keys=True).encode()
    return hmac.new(settings.SECRET_KEY.encode(), canonical, hashlib.sha256).hexdigest()


def from_request(view: GenericViewSet[Any]) -> IdempotentRequest | None:
    """Return the unsaved record of a request; None without a key, or for an action that accepts none."""
    key, request = read_key(view), view.request
    if key is None or has_nul(request.path):
        # A path with NUL cannot be stored, and matches no resource.
        return None
    route = f"{request.method} {request.path.rstrip('/')}"[:MAX_ROUTE]
    digest = body_digest(request.data)
    return IdempotentRequest(token_key=request.auth.key, route=route, key=key, digest=digest)


def run_idempotently(
    view: GenericViewSet[Any],
    prepare: Callable[[], Prepared],
    carry_out: Callable[[Prepared], Any],
    *,
    in_transaction: bool = True,
) -> HttpResponse:
    """Return 201 with the result of an action, or the response to an earlier request with the same key.

    `prepare` checks the request and may call nodes and signers; `carry_out` runs in a transaction, unless it needs
    none and there is no key to store.
    """
    request, key = view.request, from_request(view)
    if key and (stored := find(key)):
        return stored
    prepared = prepare()
    with transaction.atomic() if key or in_transaction else nullcontext():
        if key and (stored := claim(key)):
            return stored
        body: bytes = request.accepted_renderer.render(carry_out(prepared))  # type: ignore[assignment]  # ours returns bytes
        if key:
            IdempotentRequest.objects.filter(pk=key.pk).update(status=HTTPStatus.CREATED, body=body.decode())
    return HttpResponse(body, status=HTTPStatus.CREATED, content_type=request.accepted_renderer.media_type)


def find(wanted: IdempotentRequest) -> HttpResponse | None:
    """Return the stored response to a request with the same key; raise `Conflict` if its body was different."""
    found = same_key(wanted).filter(at__gt=timezone.now() - IDEMPOTENCY_KEPT).first()
    if found is None or found.pk == wanted.pk:
        return None
    if not hmac.compare_digest(found.digest, wanted.digest):
        raise Conflict(OTHER_BODY, ErrorCode.IDEMPOTENCY_KEY_REUSED)
    return HttpResponse(found.body, status=found.status, content_type="application/json", headers=REPLAYED)


def claim(wanted: IdempotentRequest) -> HttpResponse | None:
    """Store a key in the transaction of its request, or return the response of an earlier request."""
    same_key(wanted).filter(at__lte=timezone.now() - IDEMPOTENCY_KEPT).delete()
    # Waits for the end of a concurrent transaction that stores the same key.
    IdempotentRequest.objects.bulk_create([wanted], ignore_conflicts=True)
    return find(wanted)


def same_key(wanted: IdempotentRequest) -> QuerySet[IdempotentRequest]:
    return IdempotentRequest.objects.filter(token_key=wanted.token_key, route=wanted.route, key=wanted.key)
