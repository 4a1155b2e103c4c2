"""Pages of the console: what a large fleet costs beside a small one, on both engines, each in a process of its own."""

import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any
from urllib.parse import urlsplit

from benchmarks import fill
from benchmarks.console_pages import FORMS, LAST, PAGES
from benchmarks.databases import SQLITE_FILE, Bench, Database
from benchmarks.fill_console import fill_console
from benchmarks.report import Failed, Row, medians
from benchmarks.turns import in_turns

SIZES, FAST_SIZES = (1_000, 100_000), (500, 5_000)
# By the number of relayers.
TRANSACTIONS = {500: 1_000, 1_000: 2_000, 5_000: 10_000, 100_000: 1_000_000}
ROUNDS, FAST_ROUNDS = 3, 1
AT_MOST = 3
AT_MOST_MS = 500
POSTGRESQL, SQLITE = "PostgreSQL", "SQLite"
# Pages name static files without a hash, so that they need not be collected first.
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
SETTINGS = {"LOG_LEVEL": "ERROR", "EXTENSIONS": "lifecycle,quotes,signing,transactions"}


def measure(bench: Bench) -> list[Row]:
    rows = []
    for engine in (POSTGRESQL, SQLITE):
        # Django serves one engine in a process.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows += pool.submit(measure_engine, bench, engine).result()
    return rows


def measure_engine(bench: Bench, engine: str) -> list[Row]:
    small, large = FAST_SIZES if bench.fast else SIZES
    with ExitStack() as stack:
        made = {
            size: stack.enter_context(bench.postgresql()) if engine == POSTGRESQL else bench.sqlite()
            for size in (small, large)
        }
        for size, database in made.items():
            fill.fill(database, size)
            fill_console(database, size, TRANSACTIONS[size])
        os.environ.update(made[small].environment | SETTINGS)
        import django
        from django.test import override_settings

        django.setup()
        stack.enter_context(override_settings(STORAGES=STORAGES))
        stack.callback(close)
        found = {size: pages_of(database) for size, database in made.items()}
        timed = in_turns(
            {size: turn(database) for size, database in made.items()},
            FAST_ROUNDS if bench.fast else ROUNDS,
            warm_up=False,
        )
    return [row for page in PAGES for row in rows_of(page, engine, small, large, found, timed)]


def rows_of(
    page: str,
    engine: str,
    small: int,
    large: int,
    found: dict[int, dict[str, tuple[int, float]]],
    timed: dict[int, list[dict[str, float]]],
) -> list[Row]:
    """Return a page's time and number of queries at the large size beside those at the small one."""
    rounds = {f"{size:,} ms": [each[page] for each in timed[size]] for size in (small, large)}
    times = medians(rounds)
    (queries, kilobytes), (more_queries, more_kilobytes) = found[small][page], found[large][page]
    title, against = f"{page}: {large:,} relayers, {engine}", f"{small:,} relayers"
    return [
        Row(
            f"{title}, time",
            round(times[f"{large:,} ms"] / times[f"{small:,} ms"], 2),
            "x",
            against,
            # SQLite has no index for searches of any part of a text.
            at_most=AT_MOST if engine == POSTGRESQL else None,
            beside={**medians(rounds, 1), f"{small:,} kB": kilobytes, f"{large:,} kB": more_kilobytes},
        ),
        Row(f"{title}, milliseconds", round(times[f"{large:,} ms"], 1), "ms", "", at_most=AT_MOST_MS),
        Row(
            f"{title}, queries",
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
    for page, path in paths(client).items():
        visit(client, page, path)
        with CaptureQueriesContext(connection) as queries:
            content = visit(client, page, path)
        found[page] = len(queries), round(len(content) / 1000, 1)
    return found


def paths(client: Any) -> dict[str, str]:
    """Return the address of each page in the database of a client, where the last page has a number."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    found = {page: path.format(day=day) for page, path in PAGES.items()}
    for page, path in found.items():
        if LAST in path:
            linked = re.findall(rb"[?;]p=(\d+)", get(client, path.replace(LAST, "")))
            found[page] = path.replace(LAST, f"p={max(map(int, linked), default=1)}")
    return found


def turn(database: Database) -> Callable[[], dict[str, float]]:
    pages = paths(signed_in(database))

    def measure() -> dict[str, float]:
        """Return the milliseconds of each page; the first visit after the change of databases does not count."""
        client, found = signed_in(database), {}
        for page, path in pages.items():
            visit(client, page, path)
            started = time.perf_counter()
            visit(client, page, path)
            found[page] = (time.perf_counter() - started) * 1000
        return found

    return measure


def signed_in(database: Database) -> Any:
    """Point this process to a database, and return a client that has signed in there."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    close()
    name = urlsplit(database.url).path.removeprefix("/") if database.url else database.folder / SQLITE_FILE
    connection.settings_dict["NAME"] = name
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username="benchmarks"))
    return client


def close() -> None:
    from django.db import connection

    connection.close()
    if hasattr(connection, "close_pool"):
        connection.close_pool()


def visit(client: Any, page: str, path: str) -> bytes:
    from relayers.models import Relayer

    if page not in FORMS:
        return get(client, path)
    rows = str(Relayer.objects.order_by("-pk").values_list("pk", flat=True)[0])
    fields = {name: text.format(rows=rows) if isinstance(text, str) else text for name, text in FORMS[page].items()}
    return checked(path, client.post(path, fields))


def get(client: Any, path: str) -> bytes:
    return checked(path, client.get(path, follow=True))


def checked(path: str, response: Any) -> bytes:
    if response.status_code != 200:
        raise Failed(f"{path} answered {response.status_code}")
    content: bytes = response.content
    return content
