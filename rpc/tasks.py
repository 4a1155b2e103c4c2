from relayer_service.background.tasks import periodic, task
from relayer_service.observability import call_counts
from rpc import counters
from rpc.fees import price_checks
from rpc.models import FeeToken


@periodic(seconds=60 * 60)
def prune_call_counts() -> None:
    call_counts.prune([call_counts.RELAYER, call_counts.ALL_RELAYERS], counters.RETENTION)


@periodic(seconds=60)
def read_prices() -> None:
    price_checks.refresh(FeeToken.objects.filter(enabled=True).prefetch_related("sources"))


@task()
def read_price_now(token_pk: int) -> None:
    """Read the price of a changed token without waiting for the next run."""
    price_checks.refresh(FeeToken.objects.filter(pk=token_pk))
