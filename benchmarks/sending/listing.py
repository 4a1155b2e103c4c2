"""Page 1 of one relayer's transactions, with few, many and very many of them in one table.

Rows of the relayer with few are the oldest, behind all those of the others: its page is compared with one of signers.
"""

import json
from collections.abc import Callable
from typing import Any

from eth_account import Account

from benchmarks import load
from benchmarks.databases import Bench, Database
from benchmarks.load import Load
from benchmarks.report import Failed, Row, medians
from benchmarks.resources import PER_PAGE
from benchmarks.sending.accepting import NODE
from benchmarks.sending.deployment import deployed
from benchmarks.sending.rows import RECEIVER, Senders, create_apart
from benchmarks.targets import fetch
from benchmarks.turns import in_turns

SIZES, FAST_SIZES = (10, 100_000, 1_000_000), (10, 5_000)
ROUNDS, FAST_ROUNDS = 9, 2
TURN_SECONDS, FAST_TURN_SECONDS = 0.4, 0.2
# More than ten executions for each database connection of the server.
WARM_UP_REQUESTS = 300
QUERIES = {"": "page 1", "&status=confirmed": "page 1 of the confirmed"}
MAX_RATIO = 1.3
PLAIN, PLAIN_LIST = (0, ""), f"/api/v1/signers?page=1&per_page={PER_PAGE}"
# A transaction is shown with its attempts, its lane and its place in the queue.
MAX_PLAIN_RATIO = 4.0
# A relayer has a pending row; each of its other rows is confirmed and has one attempt, which is mined. What a column
# is not named for has the value of the pending row.
COLUMNS = """
SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
WHERE attrelid = 'transactions_transaction'::regclass AND attnum > 0 AND NOT attisdropped AND attname <> ALL(%s)
"""
CHANGED = {
    "sequence": "base + n",
    "identifier": "gen_random_uuid()::text",
    "status": "'confirmed'",
    "nonce": "n",
    "last_attempt_id": "base + n",
    "mined_attempt_id": "base + n",
    "sent_at": "now()",
    "submitted_at": "now()",
    "mined_at": "now()",
    "finished_at": "now()",
    "block_number": "n",
    "succeeded": "TRUE",
}
TRANSACTIONS = """
INSERT INTO transactions_transaction ({same}, {changed})
SELECT {same_of_row}, {values} FROM transactions_transaction AS pending, generate_series(1, {size}) AS n,
  (SELECT {base}::bigint AS base) AS start
WHERE pending.sequence = {pending}
"""
ATTEMPTS = """
INSERT INTO transactions_attempt (
  id, transaction_id, number, purpose, lane_id, epoch, nonce, hash, raw, gas_limit, gas_price_text, max_fee_text,
  max_priority_fee_text, max_cost_text, minimum_price_text, signed_at, broadcasts, outcome, error
)
SELECT sequence, sequence, 1, 'send', lane_id, epoch, nonce, '0x' || lpad(to_hex(sequence), 64, '0'),
       decode('{raw}', 'hex'), 21000, '', '3000000000', '1000000000', '63000000000001', '', now(), 1,
       'accepted', ''
FROM transactions_transaction WHERE lane_id = {lane} AND nonce IS NOT NULL
"""
# What each attempt has sent.
SIGNED: dict[str, Any] = {
    "type": 2,
    "chainId": 31337,
    "nonce": 1,
    "to": RECEIVER,
    "value": 1,
    "gas": 21_000,
    "maxFeePerGas": 3 * 10**9,
    "maxPriorityFeePerGas": 10**9,
}
# Between the rows of two relayers.
GAP = 10_000_000


def rows(bench: Bench) -> list[Row]:
    sizes = FAST_SIZES if bench.fast else SIZES
    with bench.postgresql() as database, deployed(database) as deployment:
        # As many as a page has, for the plain list; those beyond the sizes have no transactions but one.
        senders = create_apart(database, deployment.settings, NODE, PER_PAGE, queued=1)
        fill(database, sizes)
        paths = {
            (size, query): f"{senders.path(number)}?page=1&per_page={PER_PAGE}{query}"
            for query in QUERIES
            for number, size in enumerate(sizes)
        }
        return measure(deployment.port, senders, paths, sizes[0], fast=bench.fast)


def measure(port: int, senders: Senders, paths: dict[tuple[int, str], str], small: int, *, fast: bool) -> list[Row]:
    everything: dict[tuple[int, str], str] = {**paths, PLAIN: PLAIN_LIST}
    requests = {key: load.Request(path, f"Bearer {senders.token}") for key, path in everything.items()}
    for request in requests.values():
        check_page(port, request)
        load.drive(port, [(request.encoded(), request)] * WARM_UP_REQUESTS)
    seconds = FAST_TURN_SECONDS if fast else TURN_SECONDS

    def turn(request: load.Request) -> Callable[[], Load]:
        return lambda: load.drive(port, load.for_seconds(request, seconds), connections=1)

    found = in_turns({key: turn(request) for key, request in requests.items()}, FAST_ROUNDS if fast else ROUNDS)
    times = {
        key: {f"p{percent} ms": [each.percentile(percent) * 1000 for each in loads] for percent in (50, 99)}
        for key, loads in found.items()
    }
    rows = [row(size, query, times[size, query], times[small, query], small) for size, query in paths if size != small]
    return [beside_plain(small, times[small, ""], times[PLAIN]), *rows]


def beside_plain(small: int, times: dict[str, list[float]], plain_times: dict[str, list[float]]) -> Row:
    found, plain = medians(times), medians(plain_times)
    return Row(
        f"list of {small} transactions of a relayer, behind those of others",
        round(found["p50 ms"] / plain["p50 ms"], 2),
        "x p50",
        "a list of signers",
        at_most=MAX_PLAIN_RATIO,
        beside={**medians(times, 2), "p50 ms of signers": round(plain["p50 ms"], 2)},
    )


def row(size: int, query: str, times: dict[str, list[float]], small_times: dict[str, list[float]], small: int) -> Row:
    found, first = medians(times), medians(small_times)
    return Row(
        f"list of {size:,} transactions of a relayer, {QUERIES[query]}",
        round(found["p50 ms"] / first["p50 ms"], 2),
        "x p50",
        f"a relayer with {small}",
        at_most=MAX_RATIO,
        beside={**medians(times, 2), f"p50 ms of {small}": round(first["p50 ms"], 2)},
    )


def check_page(port: int, request: load.Request) -> None:
    """Raise Failed unless the page is full."""
    data = json.loads(fetch(port, request))["data"]
    if len(data) != PER_PAGE:
        raise Failed(f"{request.path} has {len(data)} rows instead of {PER_PAGE}")


def fill(database: Database, sizes: tuple[int, ...]) -> None:
    """Add confirmed transactions to relayers that have one pending row each."""
    with database.connect() as connection:
        pending = connection.execute("SELECT sequence, lane_id FROM transactions_transaction ORDER BY sequence")
        for number, ((sequence, lane), size) in enumerate(zip(pending.fetchall(), sizes, strict=False), 1):
            with connection.transaction():
                copy_row(connection, sequence, CHANGED, size, number * GAP)
                connection.execute(ATTEMPTS.format(lane=lane, raw=signed_bytes()))
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def copy_row(connection: Any, pending: int, changed: dict[str, str], size: int, base: int) -> None:
    """Add copies of a pending row with other values of some columns."""
    (same,) = connection.execute(COLUMNS, [list(changed)]).fetchone()
    transactions = TRANSACTIONS.format(
        same=same,
        same_of_row=", ".join(f"pending.{name}" for name in same.split(", ")),
        changed=", ".join(changed),
        values=", ".join(changed.values()),
        size=size,
        base=base,
        pending=pending,
    )
    connection.execute(transactions)


def signed_bytes() -> str:
    text: str = Account.sign_transaction(SIGNED, "0x" + "11" * 32).raw_transaction.hex()
    return text
