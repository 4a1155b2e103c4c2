"""Pages of the admin: what a large fleet costs beside a small one, on PostgreSQL and in this process."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from benchmarks import fill
from benchmarks.databases import Bench, Database
from benchmarks.report import Failed, Row, medians
from benchmarks.turns import in_turns

SIZES, FAST_SIZES = (1_000, 100_000), (500, 5_000)
DELIVERIES_PER_RELAYER = 5
ROUNDS, FAST_ROUNDS = 7, 1
PAGES = {
    "overview": "/admin/",
    "list of relayers": "/admin/relayers/relayer/",
    "list of deliveries": "/admin/notifications/delivery/",
    "a relayer": "/admin/relayers/relayer/250/change/",
    # A part of one address.
    "search for a relayer": "/admin/relayers/relayer/?q=1000250",
}
# Pages name static files without a hash, so that they need not be collected first.
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


def measure(bench: Bench) -> list[Row]:
    small, large = FAST_SIZES if bench.fast else SIZES
    with ExitStack() as stack:
        made = {size: stack.enter_context(bench.postgresql()) for size in (small, large)}
        for size, database in made.items():
            fill.fill(database, size)
            fill.fill_deliveries(database, size * DELIVERIES_PER_RELAYER)
        os.environ.update(made[small].environment, LOG_LEVEL="ERROR")
        import django
        from django.test import override_settings

        django.setup()
        stack.enter_context(override_settings(STORAGES=STORAGES))
        stack.callback(close)
        found = {size: pages_of(database) for size, database in made.items()}
        timed = in_turns(
            {size: turn(database) for size, database in made.items()}, FAST_ROUNDS if bench.fast else ROUNDS
        )
    return [row for page in PAGES for row in rows_of(page, small, large, found, timed)]


def rows_of(
    page: str,
    small: int,
    large: int,
    found: dict[int, dict[str, tuple[int, float]]],
    timed: dict[int, list[dict[str, float]]],
) -> list[Row]:
    """Return a page's time and number of queries at the large size beside those at the small one."""
    rounds = {f"{size:,} ms": [each[page] for each in timed[size]] for size in (small, large)}
    times = medians(rounds)
    (queries, kilobytes), (more_queries, more_kilobytes) = found[small][page], found[large][page]
    against = f"{small:,} relayers"
    return [
        Row(
            f"{page}: {large:,} relayers, time",
            round(times[f"{large:,} ms"] / times[f"{small:,} ms"], 2),
            "x",
            against,
            beside={**medians(rounds, 1), f"{small:,} kB": kilobytes, f"{large:,} kB": more_kilobytes},
            rounds={name: [round(each, 1) for each in values] for name, values in rounds.items()},
        ),
        Row(
            f"{page}: {large:,} relayers, queries",
            round(more_queries / queries, 2),
            "x",
            against,
            at_most=1,
            beside={f"{small:,}": queries, f"{large:,}": more_queries},
        ),
    ]


def pages_of(database: Database) -> dict[str, tuple[int, float]]:
    """Return the queries and the kilobytes of each page."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client, found = signed_in(database), {}
    for page, path in PAGES.items():
        get(client, path)
        with CaptureQueriesContext(connection) as queries:
            content = get(client, path)
        found[page] = len(queries), round(len(content) / 1000, 1)
    return found


def turn(database: Database) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        """Return the milliseconds of each page; the first visit after the change of databases does not count."""
        client, found = signed_in(database), {}
        for page, path in PAGES.items():
            get(client, path)
            started = time.perf_counter()
            get(client, path)
            found[page] = (time.perf_counter() - started) * 1000
        return found

    return measure


def signed_in(database: Database) -> Any:
    """Point this process to a database, and return a client that has signed in there."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    close()
    connection.settings_dict["NAME"] = urlsplit(database.url).path.removeprefix("/")
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username="benchmarks"))
    return client


def close() -> None:
    from django.db import connection

    connection.close()
    if hasattr(connection, "close_pool"):
        connection.close_pool()


def get(client: Any, path: str) -> bytes:
    response = client.get(path)
    if response.status_code != 200:
        raise Failed(f"{path} answered {response.status_code}")
    content: bytes = response.content
    return content
