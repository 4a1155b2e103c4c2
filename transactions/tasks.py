"""Tasks of transactions. `wake_lane` is only a push: a sweep also finds lanes with open rows."""

from relayer_service.background.tasks import STOP_SECONDS, periodic, queue, task
from transactions import pruning
from transactions.lanes.engine import engine
from transactions.settlement import second_node
from transactions.spending import checking
from transactions.topups import sweeping


@task()
def wake_lane(lane_pk: int) -> None:
    """Start a turn of a lane in this worker."""
    engine.wake(lane_pk)


@periodic(seconds=2)
def wake_due_lanes() -> None:
    """Take over lanes of workers that were killed, and those whose push was lost."""
    engine.sweep()


@periodic(seconds=5)
def top_up_relayers() -> None:
    """Top up relayers whose balance is below their minimum, from their funding relayers."""
    sweeping.sweep()


@periodic(seconds=10)
def release_charges() -> None:
    second_node.release_charges()


@periodic(seconds=60 * 60)
def prune_transactions() -> None:
    pruning.prune()
    checking.settle_final()
    pruning.prune_policies()


@queue.on_shutdown()
def stop_sending() -> None:
    engine.stop(STOP_SECONDS)
