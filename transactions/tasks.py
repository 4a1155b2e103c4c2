"""Periodic work of transactions. Lanes are also pushed (`lanes/wake.py`)."""

from relayer_service.background.tasks import STOP_SECONDS, periodic, queue
from transactions.lanes import wake  # noqa: F401  # registers its task
from transactions.lanes.engine import engine
from transactions.repair import limit_checks, pruning
from transactions.settlement import second_node
from transactions.top_ups import finding


@periodic(seconds=2)
def wake_due_lanes() -> None:
    """Take over lanes of workers that were killed, and those whose push was lost."""
    engine.sweep()


@periodic(seconds=5)
def top_up_relayers() -> None:
    """Top up relayers whose balance is below their minimum, from their funding relayers."""
    finding.sweep()


@periodic(seconds=10)
def release_charges() -> None:
    second_node.release_charges()


@periodic(seconds=60 * 60)
def prune_transactions() -> None:
    pruning.prune()
    limit_checks.settle_final()
    pruning.prune_policies()


@queue.on_shutdown()
def stop_sending() -> None:
    engine.stop(STOP_SECONDS)
