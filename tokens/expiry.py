"""Telling webhooks of access tokens that expire soon."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from notifications.emitting import emit_to_all
from relayer_service.storage.clock import timestamp
from tokens.events import TOKEN_EXPIRING, TokenExpiringData
from tokens.models import AccessToken

# How long before a token expires it is told.
AHEAD = (timedelta(days=14), timedelta(days=3))


def announce() -> int:
    """Emit an event for each token of which the next one is due; return how many there were."""
    now = timezone.now()
    due = Q()
    for ahead in AHEAD:
        # A later expiry, set meanwhile, is told anew.
        untold = Q(expiry_announced_at=None) | Q(expiry_announced_at__lt=F("expires_at") - ahead)
        due |= Q(expires_at__lte=now + ahead) & untold
    with transaction.atomic():
        tokens = list(AccessToken.objects.select_for_update().filter(due, enabled=True, expires_at__gt=now))
        for token in tokens:
            assert token.expires_at is not None
            data = TokenExpiringData(name=token.name, token=f"rms_{token.key}", expires_at=timestamp(token.expires_at))
            emit_to_all(TOKEN_EXPIRING, data)
        AccessToken.objects.filter(pk__in=[token.pk for token in tokens]).update(expiry_announced_at=now)
    return len(tokens)
