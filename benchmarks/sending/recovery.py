"""How long a lane sends nothing after its worker was killed with kill -9: until its next transaction is submitted."""

import time

from benchmarks.databases import Bench
from benchmarks.node import nodes
from benchmarks.report import Row, medians
from benchmarks.sending.deployment import Deployment, deployed
from benchmarks.sending.latency import NODE_PROGRAM, send
from benchmarks.sending.rows import Senders, create_apart

# The shipped length of a lease, and a short one.
LEASE_SECONDS, FAST_LEASE_SECONDS = 30, 3
ROUNDS, FAST_ROUNDS = 3, 1
# To notice the end of the lease, and to take the turn.
MARGIN_SECONDS = 4
MAX_SECONDS = 60


def rows(bench: Bench) -> list[Row]:
    lease = FAST_LEASE_SECONDS if bench.fast else LEASE_SECONDS
    with (
        bench.postgresql() as database,
        nodes(0, program=NODE_PROGRAM) as urls,
        deployed(database, workers=1, LANE_LEASE_SECONDS=str(lease)) as deployment,
    ):
        senders = create_apart(database, deployment.settings, urls[0], 1)
        send(deployment, senders)
        deployment.wait_until_all_have("submitted_at")
        found = [seconds_until_sent(deployment, senders, lease) for _ in range(FAST_ROUNDS if bench.fast else ROUNDS)]
    return [
        Row(
            f"first send of a lane whose worker was killed, lease {lease} s",
            round(medians({"": found})[""], 1),
            "s",
            "the lease of the lane",
            at_most=lease + MARGIN_SECONDS,
        )
    ]


def seconds_until_sent(deployment: Deployment, senders: Senders, lease: int) -> float:
    """Kill the worker that has the lane, with another one beside it, and send; return the seconds since the kill."""
    deployment.start_worker()
    deployment.wait_for_worker()
    send(deployment, senders)
    deployment.wait_until_all_have("submitted_at")
    deployment.kill_worker()
    killed = time.monotonic()
    deployment.workers.pop(0)
    send(deployment, senders)
    deployment.wait_until_all_have("submitted_at", lease + MAX_SECONDS)
    return time.monotonic() - killed
