from relayer_service.background.tasks import periodic, task
from relayer_service.storage.clock import DatabaseNow
from rpc import price_checks
from rpc.models import CallCount, CallHour, FeeToken

# Rows in one statement: a long one would block the counting.
BATCH_SIZE = 5_000


@periodic(seconds=60 * 60)
def prune_call_counts() -> None:
    """Delete the counts of calls that are older than their retention."""
    oldest = DatabaseNow() - CallCount.RETENTION
    CallHour.objects.filter(hour__lt=oldest).delete()
    old = CallCount.objects.filter(minute__lt=oldest).order_by("minute")
    deleted = BATCH_SIZE
    while deleted == BATCH_SIZE:
        deleted, _ = CallCount.objects.filter(pk__in=old.values("pk")[:BATCH_SIZE]).delete()


@periodic(seconds=60)
def read_prices() -> None:
    """Read the prices of the fee tokens that are in use."""
    price_checks.refresh(FeeToken.objects.filter(enabled=True).prefetch_related("sources"))


@task()
def read_price_now(token_pk: int) -> None:
    """Read the price of a token that staff have changed, without waiting for the next round."""
    price_checks.refresh(FeeToken.objects.filter(pk=token_pk))
