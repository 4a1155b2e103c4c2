"""How long it takes from accepting a transaction to a node's acceptance, one after another with pauses."""

import time

from benchmarks.databases import Bench
from benchmarks.load import Request, drive
from benchmarks.node import nodes
from benchmarks.report import Row
from benchmarks.sending.accepting import BODY, STATUS
from benchmarks.sending.deployment import Deployment, deployed
from benchmarks.sending.rows import Senders, create_apart

NODE_PROGRAM = "benchmarks.mining_node"
# The milliseconds of the nodes, and how many sends.
WAITS = (0, 100)
SENDS, FAST_SENDS = 150, 15
PAUSE_SECONDS, FAST_PAUSE_SECONDS = 0.35, 0.25
# A turn asks its node twice: it reads account, market and estimates in one batch, and then broadcasts.
SEQUENTIAL_CALLS = 2
MAX_ADDED_MS = 100
TIMES = """
SELECT extract(epoch FROM submitted_at - created_at)::float8 FROM transactions_transaction
ORDER BY sequence OFFSET %s
"""


def rows(bench: Bench) -> list[Row]:
    return [row(bench, wait) for wait in WAITS]


def row(bench: Bench, wait: int) -> Row:
    with bench.postgresql() as database, nodes(wait, program=NODE_PROGRAM) as urls:
        with deployed(database, workers=1) as deployment:
            senders = create_apart(database, deployment.settings, urls[wait], 1)
            # The first waits until the worker has started, and meets the chain for the first time.
            send(deployment, senders)
            deployment.wait_until_all_have("submitted_at")
            sends, pause = (FAST_SENDS, FAST_PAUSE_SECONDS) if bench.fast else (SENDS, PAUSE_SECONDS)
            for _ in range(sends):
                send(deployment, senders)
                time.sleep(pause)
            deployment.wait_until_all_have("submitted_at")
        with database.connect() as connection:
            times = sorted(float(seconds) * 1000 for (seconds,) in connection.execute(TIMES, [1]))
    called = SEQUENTIAL_CALLS * wait
    p50, p99 = (times[len(times) * percent // 100] for percent in (50, 99))
    return Row(
        f"accepted to submitted, node of {wait} ms: p50, added",
        round(p50 - called, 1),
        "ms",
        f"{SEQUENTIAL_CALLS} calls of the node",
        at_most=MAX_ADDED_MS,
        beside={"p50 ms": round(p50, 1), "p99 ms": round(p99, 1), "calls ms": called},
    )


def send(deployment: Deployment, senders: Senders, number: int = 0) -> None:
    request = Request(senders.path(number), f"Bearer {senders.token}", "POST", BODY, status=STATUS)
    drive(deployment.port, [(request.encoded(), request)], connections=1)
