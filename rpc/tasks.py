from django.utils import timezone

from relayer_service.ops.tasks import periodic, task
from rpc import price_checks
from rpc.models import CallCount, FeeToken

# In one statement, so that none holds up the counting.
PRUNED_AT_ONCE = 5_000


@periodic(seconds=60 * 60)
def prune_call_counts() -> None:
    """Delete the counts of calls that are past their retention."""
    old = CallCount.objects.filter(minute__lt=timezone.now() - CallCount.KEPT).order_by("minute")
    deleted = PRUNED_AT_ONCE
    while deleted == PRUNED_AT_ONCE:
        deleted, _ = CallCount.objects.filter(pk__in=old.values("pk")[:PRUNED_AT_ONCE]).delete()


@periodic(seconds=60)
def read_prices() -> None:
    """Read the prices of the fee tokens that are in use."""
    price_checks.refresh(FeeToken.objects.filter(enabled=True).prefetch_related("sources"))


@task()
def read_price_now(token_pk: int) -> None:
    """Read the price of a token that staff have changed, without waiting for the next round."""
    price_checks.refresh(FeeToken.objects.filter(pk=token_pk))
