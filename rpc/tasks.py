from relayer_service.background.tasks import periodic, task
from relayer_service.storage.clock import DatabaseNow
from rpc import price_checks
from rpc.models import CallCount, CallHour, FeeToken

# Rows per statement: a long one would block the counters.
BATCH_SIZE = 5_000


@periodic(seconds=60 * 60)
def prune_call_counts() -> None:
    oldest = DatabaseNow() - CallCount.RETENTION
    CallHour.objects.filter(hour__lt=oldest).delete()
    old = CallCount.objects.filter(minute__lt=oldest).order_by("minute")
    deleted = BATCH_SIZE
    while deleted == BATCH_SIZE:
        deleted, _ = CallCount.objects.filter(pk__in=old.values("pk")[:BATCH_SIZE]).delete()


@periodic(seconds=60)
def read_prices() -> None:
    price_checks.refresh(FeeToken.objects.filter(enabled=True).prefetch_related("sources"))


@task()
def read_price_now(token_pk: int) -> None:
    """Read the price of a changed token without waiting for the next run."""
    price_checks.refresh(FeeToken.objects.filter(pk=token_pk))
