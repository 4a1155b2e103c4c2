"""Pages of the admin: what a large fleet costs beside a small one, on PostgreSQL and in this process."""

import os
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from benchmarks import fill
from benchmarks.databases import Bench, Database
from benchmarks.report import Failed, Row, medians
from benchmarks.turns import in_turns

SIZES, FAST_SIZES = (1_000, 100_000), (500, 5_000)
DELIVERIES_PER_RELAYER = 5
ROUNDS, FAST_ROUNDS = 7, 1
AT_MOST = 3
AT_MOST_MS = 500
RELAYERS = "/admin/relayers/relayer/"
SIGNERS = "/admin/signers/signer/"
NOTIFICATIONS = "/admin/notifications/notification/"
DELIVERIES = "/admin/notifications/delivery/"
AUDIT = "/admin/relayer_service/auditentry/"
SEARCH = "/admin/search/?extended=1&s="
ADDRESS = "0xabcdefabcdefabcdefabcdefabcdefabc1000250"
WEBHOOK_ID = "msg_6c9882bbac1c7093bd25041881277658"
# In place of the number of a page: the last.
LAST = "p=last"
PAGES = {
    "overview": "/admin/",
    "relayers": RELAYERS,
    "relayers, last page": f"{RELAYERS}?{LAST}",
    **{
        f"relayers, {state}": f"{RELAYERS}?state={state}".replace(" ", "+")
        for state in ("disabled", "low balance", "paused", "no address", "unknown", "active")
    },
    "relayers, disabled, last page": f"{RELAYERS}?state=disabled&{LAST}",
    "relayers, of a network": f"{RELAYERS}?network=mainnet",
    "relayers, of an unused network": f"{RELAYERS}?network=base",
    "relayers, of two networks": f"{RELAYERS}?network=mainnet&network=my-chain",
    "relayers, of a signer": f"{RELAYERS}?signer__sequence__exact=1",
    "relayers, by name": f"{RELAYERS}?o=1",
    "relayers, by name, last page": f"{RELAYERS}?o=1&{LAST}",
    "relayers, by name from the end": f"{RELAYERS}?o=-1",
    "relayers, by network": f"{RELAYERS}?o=4",
    "relayers, by address": f"{RELAYERS}?o=5",
    "relayers, by balance": f"{RELAYERS}?o=6",
    "relayers, by balance from the end": f"{RELAYERS}?o=-6",
    "relayers, by last check": f"{RELAYERS}?o=7",
    "relayers, by last check from the end": f"{RELAYERS}?o=-7",
    "relayers, by creation": f"{RELAYERS}?o=8",
    "relayers, disabled, by name": f"{RELAYERS}?state=disabled&o=1",
    "relayers, search by id": f"{RELAYERS}?q=relayer-1",
    "relayers, search by a short prefix": f"{RELAYERS}?q=rel",
    "relayers, search by name, two words": f"{RELAYERS}?q=Relayer+1",
    "relayers, search by a part of an id": f"{RELAYERS}?q=r-50",
    "relayers, search by a part of an address": f"{RELAYERS}?q={ADDRESS[20:]}",
    "relayers, search by a shortened address": f"{RELAYERS}?q={ADDRESS[:6]}…{ADDRESS[-6:]}",
    "relayers, search by network": f"{RELAYERS}?q=ainn",
    "relayers, search by two characters": f"{RELAYERS}?q=re",
    "relayers, search by address": f"{RELAYERS}?q={ADDRESS}",
    "relayers, search, disabled": f"{RELAYERS}?q=relayer-&state=disabled",
    "relayers, search, nothing found": f"{RELAYERS}?q=no+such+relayer",
    "networks and nodes": f"{RELAYERS}nodes/",
    "a relayer": f"{RELAYERS}250/change/",
    "a relayer's history": f"{RELAYERS}250/history/",
    "signers": SIGNERS,
    "signers, last page": f"{SIGNERS}?{LAST}",
    "signers, of a type": f"{SIGNERS}?type__exact=provider_d",
    "signers, of an unused type": f"{SIGNERS}?type__exact=provider_c",
    "signers, by id": f"{SIGNERS}?o=1",
    "signers, by type": f"{SIGNERS}?o=2",
    "signers, by address": f"{SIGNERS}?o=3",
    "signers, by verification from the end": f"{SIGNERS}?o=-4",
    "signers, search by id": f"{SIGNERS}?q=signer-1",
    "signers, search by address": f"{SIGNERS}?q={ADDRESS}",
    "signers, search, nothing found": f"{SIGNERS}?q=no+such+signer",
    "a signer of half the relayers": f"{SIGNERS}1/change/",
    "notifications": NOTIFICATIONS,
    "notifications, last page": f"{NOTIFICATIONS}?{LAST}",
    **{f"notifications, {state}": f"{NOTIFICATIONS}?state={state}" for state in ("failing", "gone", "disabled", "ok")},
    "notifications, by id": f"{NOTIFICATIONS}?o=1",
    "notifications, by URL": f"{NOTIFICATIONS}?o=2",
    "notifications, search by a part of a URL": f"{NOTIFICATIONS}?q=ks-12",
    "notifications, search by id": f"{NOTIFICATIONS}?q=target-1",
    "notifications, search by URL": f"{NOTIFICATIONS}?q=https://hooks-1",
    "notifications, search, nothing found": f"{NOTIFICATIONS}?q=no+such+target",
    "a notification of a fifth of the deliveries": f"{NOTIFICATIONS}1/change/",
    "deliveries": DELIVERIES,
    "deliveries, last page": f"{DELIVERIES}?{LAST}",
    **{f"deliveries, {state}": f"{DELIVERIES}?state__exact={state}" for state in ("failed", "pending", "delivered")},
    "deliveries, of an event": f"{DELIVERIES}?event=relayer.disabled",
    "deliveries, of an unused event": f"{DELIVERIES}?event=relayer.paused",
    "deliveries, of a relayer": f"{DELIVERIES}?relayer=relayer-250",
    "deliveries, of a notification": f"{DELIVERIES}?notification__sequence__exact=1",
    "deliveries, of a notification, failed": f"{DELIVERIES}?notification__sequence__exact=1&state__exact=failed",
    "deliveries, of some days": f"{DELIVERIES}?created_at_from={{day}}&created_at_to={{day}}",
    "deliveries, search": f"{DELIVERIES}?q={WEBHOOK_ID}",
    "deliveries, search, nothing found": f"{DELIVERIES}?q=msg_none",
    "a delivery": f"{DELIVERIES}250/change/",
    "users": "/admin/auth/user/",
    "audit log": AUDIT,
    "audit log, last page": f"{AUDIT}?{LAST}",
    "audit log, of a type": f"{AUDIT}?object_type=relayer",
    "audit log, search": f"{AUDIT}?q=relayer-250",
    "audit log, search, nothing found": f"{AUDIT}?q=nobody",
    "all, search by id": f"{SEARCH}relayer-1",
    "all, search by a short prefix": f"{SEARCH}r",
    "all, search by address": f"{SEARCH}{ADDRESS}",
    "all, search by webhook-id": f"{SEARCH}{WEBHOOK_ID}",
    "all, search, nothing found": f"{SEARCH}no+such+thing",
}
# Pages of forms that are sent, with the number of relayers.
CHOSEN = {"action": "edit_selected", "_selected_action": "1"}
CHANGES = {"confirmed": "1x{rows}", "minimum_change": "set", "minimum": "5", "webhook_change": "clear", "reason": "-"}
FORMS = {
    "edit all relayers": {**CHOSEN, "select_across": "1"},
    "edit all relayers, preview": CHOSEN | CHANGES,
}
PAGES |= dict.fromkeys(FORMS, RELAYERS)
# Pages name static files without a hash, so that they need not be collected first.
STORAGES = {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}


def measure(bench: Bench) -> list[Row]:
    small, large = FAST_SIZES if bench.fast else SIZES
    with ExitStack() as stack:
        made = {size: stack.enter_context(bench.postgresql()) for size in (small, large)}
        for size, database in made.items():
            fill.fill(database, size)
            fill.fill_console(database, size, size * DELIVERIES_PER_RELAYER)
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
            at_most=AT_MOST,
            beside={**medians(rounds, 1), f"{small:,} kB": kilobytes, f"{large:,} kB": more_kilobytes},
            rounds={name: [round(each, 1) for each in values] for name, values in rounds.items()},
        ),
        Row(
            f"{page}: {large:,} relayers, milliseconds",
            round(times[f"{large:,} ms"], 1),
            "ms",
            "",
            at_most=AT_MOST_MS,
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
    connection.settings_dict["NAME"] = urlsplit(database.url).path.removeprefix("/")
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
    return checked(path, client.post(path, {name: text.format(rows=rows) for name, text in FORMS[page].items()}))


def get(client: Any, path: str) -> bytes:
    return checked(path, client.get(path))


def checked(path: str, response: Any) -> bytes:
    if response.status_code != 200:
        raise Failed(f"{path} answered {response.status_code}")
    content: bytes = response.content
    return content
