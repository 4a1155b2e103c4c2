"""What a long queue of one relayer costs: its lists, its transactions, its pages, the overview and the metrics."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

from benchmarks.areas.admin import SETTINGS, STORAGES, checked, close, signed_in
from benchmarks.databases import Bench, Database
from benchmarks.report import Row, medians
from benchmarks.resources import PER_PAGE
from benchmarks.sending.accepting import NODE
from benchmarks.sending.listing import ATTEMPTS, CHANGED, copy_row, signed_bytes
from benchmarks.sending.rows import RECEIVER, Senders, create_apart
from benchmarks.turns import in_turns

SHORT, LONG, FAST_LONG = 10, 100_000, 20_000
ROUNDS, FAST_ROUNDS = 9, 3
AT_MOST = 3
LIMIT = {"TRANSACTION_QUEUE_LIMIT": "1000000"}
# Requests that wait for longer than is expected.
QUEUED = {
    "sequence": "base + n",
    "identifier": "gen_random_uuid()::text",
    "created_at": "now() - interval '1 hour'",
}
FIRST_ROWS = "SELECT min(sequence), lane_id FROM transactions_transaction GROUP BY 2 ORDER BY 1 LIMIT 2"
# After the rows that relayers are created with.
BASE, RELAYERS = 1_000, 40
RESTART = "SELECT setval(pg_get_serial_sequence('transactions_transaction', 'sequence'), %s)"
ADMIN, LIST = "/admin/transactions", "{list}?per_page=" + str(PER_PAGE)
OF_RELAYER = f"{ADMIN}/transaction/?relayer__sequence__exact={{relayer}}"
PAGES = {
    "list, page 1": f"{LIST}&page=1",
    # Of a short queue, page 1 again.
    "list, page 100": f"{LIST}&page={{deep}}",
    "list of the pending, page 1": f"{LIST}&page=1&status=pending",
    "list of the pending, page 100": f"{LIST}&page={{deep}}&status=pending",
    "list of the confirmed": f"{LIST}&page=1&status=confirmed",
    "GET of the oldest": "{list}/{first}",
    "GET of the newest": "{list}/{last}",
    "POST": "{list}",
    "metrics": "/metrics",
    "overview": "/admin/",
    "transactions": f"{ADMIN}/transaction/",
    "transactions, pending": f"{ADMIN}/transaction/?status=pending",
    "transactions, of the relayer": OF_RELAYER,
    "transactions, of the relayer, pending": f"{OF_RELAYER}&status=pending",
    "transactions, of the network": f"{ADMIN}/transaction/?network=hardhat",
    "a transaction": f"{ADMIN}/transaction/{{key}}/change/",
    "lanes": f"{ADMIN}/lane/",
    "a lane": f"{ADMIN}/lane/{{lane}}/change/",
    "a lane's nonces": f"{ADMIN}/lane/{{lane}}/strip/",
    "relayers": "/admin/relayers/relayer/",
    "a relayer": "/admin/relayers/relayer/{relayer}/change/",
}


def rows(bench: Bench) -> list[Row]:
    # Django serves one database at a time in a process.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, bench).result()


def measure(bench: Bench) -> list[Row]:
    long = FAST_LONG if bench.fast else LONG
    with ExitStack() as stack:
        made = {size: stack.enter_context(bench.postgresql()) for size in (SHORT, long)}
        senders = {}
        for size, database in made.items():
            senders[size] = create_apart(database, SETTINGS, NODE, RELAYERS, queued=SHORT)
            fill(database, size - SHORT, others=long)
        os.environ.update(made[SHORT].environment | SETTINGS | LIMIT)
        import django
        from django.test import override_settings

        django.setup()
        stack.enter_context(override_settings(STORAGES=STORAGES))
        stack.callback(close)
        turns = {size: turn(database, senders[size], size) for size, database in made.items()}
        timed = in_turns(turns, FAST_ROUNDS if bench.fast else ROUNDS)
    return [row(page, long, {size: [each[page] for each in found] for size, found in timed.items()}) for page in PAGES]


def fill(database: Database, size: int, others: int) -> None:
    """Add confirmed transactions to the second relayer, then pending ones, which no statistics show, to the first."""
    with database.connect() as connection:
        (first, _), (second, lane) = connection.execute(FIRST_ROWS).fetchall()
        with connection.transaction():
            copy_row(connection, second, CHANGED, others, BASE)
            connection.execute(ATTEMPTS.format(lane=lane, raw=signed_bytes()))
        connection.execute("VACUUM ANALYZE")
        connection.execute("ALTER TABLE transactions_transaction SET (autovacuum_enabled = false)")
        copy_row(connection, first, QUEUED, size, BASE + others)
        connection.execute(RESTART, [BASE + others + size])


def row(page: str, long: int, times: dict[int, list[float]]) -> Row:
    rounds = {f"{size:,} ms": found for size, found in times.items()}
    ratio = medians(rounds)[f"{long:,} ms"] / medians(rounds)[f"{SHORT:,} ms"]
    title = f"{page}: {long:,} pending of one relayer"
    return Row(title, round(ratio, 2), "x", f"{SHORT} pending", AT_MOST, beside=medians(rounds, 1))


def turn(database: Database, senders: Senders, size: int) -> Callable[[], dict[str, float]]:
    def visit_all() -> dict[str, float]:
        client, names, found = signed_in(database), names_of(senders, size), {}
        for page, path in PAGES.items():
            for _ in range(2):
                started = time.perf_counter()
                visit(client, page, path.format(**names), senders.token)
                found[page] = (time.perf_counter() - started) * 1000
        return found

    return visit_all


def names_of(senders: Senders, size: int) -> dict[str, Any]:
    from transactions.models import Transaction

    queue = Transaction.objects.filter(relayer__identifier=senders.relayers[0]).order_by("sequence")
    first, last = queue[0], queue.reverse()[0]
    return {
        "list": senders.path(),
        "first": first.identifier,
        "last": last.identifier,
        "key": last.pk,
        "lane": first.lane_id,
        "relayer": first.relayer_id,
        "deep": 100 if size > SHORT else 1,
    }


def visit(client: Any, page: str, path: str, token: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}"} if path.startswith("/api/") or path == "/metrics" else None
    if page == "POST":
        body = {"to": RECEIVER, "value": 1, "speed": "fast"}
        response = client.post(path, body, content_type="application/json", headers=headers)
        return checked(path, response)
    return checked(path, client.get(path, headers=headers, follow=True))
