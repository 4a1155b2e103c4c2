from collections.abc import Collection, Sequence

from django.db import transaction

from relayer_service.background.tasks import periodic, push, task
from relayer_service.database.clock import DatabaseNow
from relayer_service.jobs.kinds import JobKind, Result
from relayer_service.observability import call_counts
from relayers import nodes
from relayers.health import checking
from relayers.models import RelayerHealth
from relayers.models.nodes import NodeOutage


@periodic(seconds=2)
def check_relayers() -> None:
    checking.check_due()


@task()
def check_relayers_now() -> None:
    """Check due relayers now, without waiting for the periodic run."""
    checking.check_due()


@periodic(seconds=60)
def check_nodes() -> None:
    nodes.check_all()


@periodic(seconds=10 * 60)
def prune_node_statistics() -> None:
    call_counts.prune([call_counts.NODE], nodes.RETENTION)
    NodeOutage.objects.filter(until__lt=DatabaseNow()).delete()


def check_soon(keys: Collection[int]) -> int:
    """Make relayers due for a check now, except those that are being checked; return how many."""
    rows = RelayerHealth.objects.filter(pk__in=keys)
    with transaction.atomic():
        count = rows.exclude(RelayerHealth.leased()).update(due_at=DatabaseNow())
        push(check_relayers_now)
    return count


class CheckRelayers(JobKind):
    model_label = "relayers.Relayer"
    permission = "relayers.check_relayer"
    title = "Check relayers now"
    job_title = "Check {} now"
    explanation = "Nonce and balance are read from the nodes now, without waiting for the next check: {}."
    done = "Queued for a check"
    skip_reason = "being checked"
    # The health check records what it changes.
    is_recorded = False

    def run(self, keys: Sequence[int]) -> Result:
        return Result(check_soon(keys))
