from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from notifications.emitting import emit_to_all
from relayer_service.background.tasks import periodic, task
from relayer_service.database.clock import timestamp
from tokens import uses
from tokens.events import TOKEN_EXPIRING, TokenExpiringData
from tokens.models import AccessToken, TokenUse

# How long before a token expires webhooks are notified.
NOTICE_PERIODS = (timedelta(days=14), timedelta(days=3))


@task()
def record_use(token_id: int, used_timestamp: float) -> None:
    """Write a token's last use, at most once a minute across all processes, and its first."""
    used_at = datetime.fromtimestamp(used_timestamp, UTC)
    stale = Q(last_used_at=None) | Q(last_used_at__lt=used_at - timedelta(minutes=1))
    AccessToken.objects.filter(stale, pk=token_id).update(
        last_used_at=used_at,
        # Unknown for a token that an earlier release recorded the use of.
        first_used_at=Case(When(last_used_at=None, then=Value(used_at)), default=F("first_used_at")),
    )


@periodic(seconds=60 * 60)
def prune_token_uses() -> None:
    TokenUse.objects.filter(last_at__lt=timezone.now() - uses.KEPT).delete()


@periodic(seconds=60 * 60)
def announce_expiring_tokens() -> None:
    """Notify webhooks of tokens that expire soon."""
    now = timezone.now()
    due = Q()
    for period in NOTICE_PERIODS:
        # A later expiry date is announced again.
        unannounced = Q(expiry_announced_at=None) | Q(expiry_announced_at__lt=F("expires_at") - period)
        due |= Q(expires_at__lte=now + period) & unannounced
    with transaction.atomic():
        # A replaced token is meant to expire.
        current = AccessToken.objects.filter(enabled=True, expires_at__gt=now, replaced_at=None)
        tokens = list(current.filter(due).select_for_update())
        for token in tokens:
            assert token.expires_at is not None
            data = TokenExpiringData(name=token.name, token=token.public_part, expires_at=timestamp(token.expires_at))
            emit_to_all(TOKEN_EXPIRING, data)
        AccessToken.objects.filter(pk__in=[token.pk for token in tokens]).update(expiry_announced_at=now)
