"""Pruning half of the transactions of a lane, of few and of many: the rate, and the longest lock of the lane."""

import json
import time
from typing import Any

from benchmarks.databases import Bench, Database, run_apart
from benchmarks.report import Row
from benchmarks.sending.accepting import NODE
from benchmarks.sending.deployment import deployed
from benchmarks.sending.listing import fill
from benchmarks.sending.rows import create_apart

SIZES, FAST_SIZES = (20_000, 1_000_000), (1_000, 5_000)
MIN_SHARE = 0.5
MAX_LOCKED_MS = 100
KEEP_DAYS = 30
# Each has a status change with its attempt, and the older half is final for long enough.
EXPIRED = [
    """
    INSERT INTO transactions_statuschange (transaction_id, version, from_status, to_status, at, reason, attempt_id)
    SELECT sequence, 2, 'mined', status, now(), '', mined_attempt_id FROM transactions_transaction
    """,
    "UPDATE transactions_transaction SET finished_at = now() - interval '31 days' WHERE nonce <= {half}",
    "UPDATE transactions_lane SET first_nonce = 1, next_nonce = {half} * 2 + 1, final_nonce = {half} * 2 + 1",
    "VACUUM ANALYZE",
]


def rows(bench: Bench) -> list[Row]:
    small, large = FAST_SIZES if bench.fast else SIZES
    first, found = measure(bench, small), measure(bench, large)
    return [
        Row(
            f"prune half of {large:,} transactions",
            round(found["rows/s"] / first["rows/s"], 2),
            "x rows/s",
            f"half of {small:,}",
            at_least=MIN_SHARE,
            beside={"rows/s": round(found["rows/s"]), f"rows/s of {small:,}": round(first["rows/s"])},
        ),
        Row(
            f"longest lock of a lane while half of {large:,} transactions are pruned",
            round(found["longest ms"]),
            "ms",
            f"{first['longest ms']:.0f} ms with {small:,}",
            at_most=MAX_LOCKED_MS,
        ),
    ]


def measure(bench: Bench, size: int) -> dict[str, float]:
    with bench.postgresql() as database, deployed(database, web=False) as deployment:
        create_apart(database, deployment.settings, NODE, 1, queued=1)
        fill(database, (size,))
        expire(database, size // 2)
        code = "from benchmarks.sending.pruning import prune; prune()"
        settings = deployment.settings | {"TRANSACTIONS_KEEP_DAYS": str(KEEP_DAYS)}
        found: dict[str, float] = json.loads(
            run_apart(["manage.py", "shell", "--no-imports", "-c", code], database.environment | settings)
        )
        return found


def expire(database: Database, half: int) -> None:
    with database.connect() as connection:
        for statement in EXPIRED:
            connection.execute(statement.format(half=half))


def prune() -> None:
    from transactions.repair import pruning

    delete, locked, count = pruning._delete, [0.0], 0

    def timed(lane: int, rows: Any) -> float:
        nonlocal count
        locked.append(delete(lane, rows))
        count += len(rows)
        return locked[-1]

    pruning._delete = timed
    started = time.monotonic()
    pruning.prune()
    print(json.dumps({"rows/s": count / (time.monotonic() - started), "longest ms": max(locked) * 1000}))
