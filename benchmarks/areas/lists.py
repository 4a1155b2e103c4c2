"""Lists: against the plain way and the limit, and whether size costs anything, on both engines."""

import json
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks import comparison, fill, load
from benchmarks.databases import Bench
from benchmarks.load import Load
from benchmarks.report import Failed, Row, medians
from benchmarks.resources import PER_PAGE, RESOURCES, Resource
from benchmarks.targets import GRANIAN, GUNICORN, LIMIT, SERVICE, TARGETS, Server, serving
from benchmarks.turns import in_turns

SMALL = 1_000
SIZES, FAST_SIZES = (SMALL, 100_000, 1_000_000), (SMALL, 20_000)
# Of one caller at one page.
ROUNDS, FAST_ROUNDS = 9, 2
TURN_SECONDS, FAST_TURN_SECONDS = 0.4, 0.2
# Before the first turn, to each list: more than ten executions for each database connection that the server may have,
# after which PostgreSQL may plan a prepared statement without its parameters.
WARM_UP_REQUESTS = 300


def measure(bench: Bench) -> list[Row]:
    sizes = FAST_SIZES if bench.fast else SIZES
    rows = []
    with ExitStack() as stack:
        made = {size: stack.enter_context(bench.postgresql()) for size in sizes}
        for size, database in made.items():
            fill.fill(database, size, stock=size == SMALL)
        wanted = {(SMALL, target): (made[SMALL], target) for target in TARGETS}
        wanted |= {(size, SERVICE): (database, SERVICE) for size, database in made.items()}
        with serving(wanted) as servers:
            for resource in RESOURCES:
                rows += beside_controls(resource, {each: servers[SMALL, each] for each in TARGETS}, fast=bench.fast)
            rows += flatness("PostgreSQL", {size: servers[size, SERVICE] for size in sizes}, fast=bench.fast)
    made = {size: bench.sqlite() for size in sizes}
    for size, database in made.items():
        fill.fill(database, size)
    with serving({size: (database, SERVICE) for size, database in made.items()}) as alone:
        rows += flatness("SQLite", alone, fast=bench.fast)
    return rows


def beside_controls(resource: Resource, servers: dict[str, Server], *, fast: bool) -> list[Row]:
    """Compare the servers at page 1 of a small list, with eight callers and one process each."""
    path = resource.page_path(1)
    compare_answers(resource, {name: server.answer(server.request(path)) for name, server in servers.items()})
    found = comparison.rates(servers, lambda server: server.request(path), fast=fast)
    return comparison.rows(f"{resource.name}: list of {SMALL:,}", found, stock=3.5, goal=4, limit=0.5)


def compare_answers(resource: Resource, answers: dict[str, bytes]) -> None:
    """Raise Failed unless all answer the same: the limit to the byte, stock in its own envelope."""
    if answers[SERVICE] != answers[LIMIT]:
        raise Failed(f"{resource.name}: service and limit differ:\n  {answers[SERVICE]!r}\n  {answers[LIMIT]!r}")
    body = json.loads(answers[SERVICE])
    if (len(body["data"]), body["pagination"]["total_items"]) != (PER_PAGE, SMALL):
        raise Failed(f"{resource.name}: {SMALL} rows and a full page were to be found: {body}")
    for name in (GUNICORN, GRANIAN):
        plain = json.loads(answers[name])
        if (plain["results"], plain["count"]) != (body["data"], SMALL):
            raise Failed(f"{resource.name}: the service and {name} differ:\n  {body['data']}\n  {plain}")


def flatness(engine: str, servers: dict[int, Server], *, fast: bool) -> list[Row]:
    """Compare the first, the middle and the last page at each size, with one caller, to page 1 of the small list."""
    resources = RESOURCES[-1:] if fast else RESOURCES
    return [row for resource in resources for row in flatness_of(resource, engine, servers, fast=fast)]


def flatness_of(resource: Resource, engine: str, servers: dict[int, Server], *, fast: bool) -> list[Row]:
    places = {(size, place): resource.page_path(number) for size in servers for place, number in pages(size).items()}
    for size, server in servers.items():
        compare_totals(server, places[size, "last"], size)
        server.warm_up(places[size, "last"], WARM_UP_REQUESTS)
    seconds = FAST_TURN_SECONDS if fast else TURN_SECONDS

    def turn(size: int, path: str) -> Callable[[], Load]:
        server = servers[size]
        return lambda: load.drive(server.port, load.for_seconds(server.request(path), seconds), connections=1)

    turns = {key: turn(key[0], path) for key, path in places.items()}
    found = in_turns(turns, FAST_ROUNDS if fast else ROUNDS)
    times = {
        key: {f"p{percent} ms": [each.percentile(percent) * 1000 for each in loads] for percent in (50, 99)}
        for key, loads in found.items()
    }
    first = medians(times[SMALL, "page 1"])
    return [
        flat_row(f"{engine}, {resource.name}: {size:,} rows, {place}", times[size, place], first)
        for size, place in places
    ]


def pages(size: int) -> dict[str, int]:
    last = size // PER_PAGE
    return {"page 1": 1, "middle": last // 2, "last": last}


def compare_totals(server: Server, path: str, size: int) -> None:
    """Raise Failed unless the last page is full and the total is that of all rows."""
    body = json.loads(server.answer(server.request(path)))
    if (len(body["data"]), body["pagination"]["total_items"]) != (PER_PAGE, size):
        raise Failed(f"{path}: {size} rows and a full page were to be found: {body}")


def flat_row(figure: str, times: dict[str, list[float]], first: dict[str, float]) -> Row:
    found = medians(times)
    return Row(
        figure,
        round(found["p50 ms"] / first["p50 ms"], 2),
        "x p50",
        f"page 1 of {SMALL:,}, both warmed",
        at_most=1.3,
        beside={**medians(times, 2), "x p99": round(found["p99 ms"] / first["p99 ms"], 2)},
    )
