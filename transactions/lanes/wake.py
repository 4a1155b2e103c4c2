"""The task that has a lane take a turn. It is only a push: a sweep also finds lanes with open rows."""

from relayer_service.background.tasks import task
from transactions.lanes.engine import engine


# The module in its name in the queue, which workers of the last release share in an upgrade.
@task(__module__="transactions.tasks")
def wake_lane(lane_pk: int) -> None:
    """Start a turn of a lane in this worker."""
    engine.wake(lane_pk)
