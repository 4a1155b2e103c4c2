from datetime import UTC, datetime, timedelta

from django.db.models import Q

from relayer_service.background.tasks import periodic, task
from tokens import expiry
from tokens.models import AccessToken


@task()
def record_use(token_id: int, timestamp: float) -> None:
    """Write a token's last use, at most once a minute however many processes saw it."""
    used_at = datetime.fromtimestamp(timestamp, UTC)
    stale = Q(last_used_at=None) | Q(last_used_at__lt=used_at - timedelta(minutes=1))
    AccessToken.objects.filter(stale, pk=token_id).update(last_used_at=used_at)


@periodic(seconds=60 * 60)
def announce_expiring_tokens() -> None:
    """Tell webhooks of tokens that expire soon."""
    expiry.announce()
