"""Telling webhooks of access tokens that expire soon."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.module_loading import import_string

from tokens.models import AccessToken

# How long before a token expires it is told.
AHEAD = (timedelta(days=14), timedelta(days=3))
EVENT = "token.expiring"


def announce() -> int:
    """Emit an event for each token of which the next one is due; return how many there were."""
    now = timezone.now()
    due = Q()
    for ahead in AHEAD:
        # A later expiry, set meanwhile, is told anew.
        untold = Q(expiry_announced_at=None) | Q(expiry_announced_at__lt=F("expires_at") - ahead)
        due |= Q(expires_at__lte=now + ahead) & untold
    tell = import_string(settings.TELL_ALL_TARGETS)
    with transaction.atomic():
        tokens = list(AccessToken.objects.select_for_update().filter(due, enabled=True, expires_at__gt=now))
        for token in tokens:
            data = {
                "name": token.name,
                "token": f"rms_{token.key}",
                "expires_at": f"{token.expires_at:%Y-%m-%dT%H:%M:%S.%fZ}",
            }
            tell(EVENT, data)
        AccessToken.objects.filter(pk__in=[token.pk for token in tokens]).update(expiry_announced_at=now)
    return len(tokens)
