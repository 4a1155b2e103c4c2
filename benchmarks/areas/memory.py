"""Memory: that of a web process after many requests of all kinds beside that after half as many."""

import json
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

from benchmarks import fill, load, node
from benchmarks.databases import Bench
from benchmarks.load import Message, Request
from benchmarks.report import Row
from benchmarks.resources import RELAYERS, SIGNERS
from benchmarks.rpc import ESTIMATE, create_apart, relayer_id
from benchmarks.targets import SERVICE, Server, serving
from tests.servers import Unavailable

ROWS = 1_000
# Requests after which the memory is read: once all is loaded, then the two that are compared.
MOMENTS, FAST_MOMENTS = (5_000, 50_000, 100_000), (300, 2_000, 4_000)
MAX_GROWTH_PERCENT = 2


def measure(bench: Bench) -> list[Row]:
    moments = FAST_MOMENTS if bench.fast else MOMENTS
    if not Path("/proc/self/task").exists():
        raise Unavailable("memory is read from /proc, which Linux alone has")
    with bench.postgresql() as database, node.nodes(0) as urls:
        fill.fill(database, ROWS)
        create_apart(database.environment, urls, tokens=1)
        with serving({SERVICE: (database, SERVICE)}) as servers:
            server = servers[SERVICE]
            messages, done, read, seconds = mixed(server), 0, [], 0.0
            for moment in moments:
                seconds += load.drive(server.port, islice(messages, moment - done)).seconds
                done = moment
                read.append(resident_megabytes(server.process.pid))
    _, half, whole = read
    return [
        Row(
            f"RSS after {moments[2]:,} mixed requests",
            round((whole / half - 1) * 100, 2),
            "%",
            f"RSS after {moments[1]:,}",
            at_most=MAX_GROWTH_PERCENT,
            beside={f"{moment:,} MB": round(megabytes, 1) for moment, megabytes in zip(moments, read, strict=True)}
            | {"requests/s": round(done / seconds)},
        )
    ]


def mixed(server: Server) -> Iterator[Message]:
    """Yield requests without end: of twenty, ten lists, three creates, two changes, two estimates, three refused."""
    authorization = server.authorization
    estimate = json.dumps(ESTIMATE)
    call = f"/api/v1/relayers/{relayer_id(0)}/rpc"
    change = Request("/api/v1/notifications/hook-1", authorization, "PATCH", '{"signing_key": "a key of length NNN"}')
    create = Request(SIGNERS.path, authorization, "POST", SIGNERS.new, status=201)
    several = [
        *(Request(SIGNERS.page_path(page), authorization) for page in (1, 2, 50, 100, 1_000)),
        *(Request(RELAYERS.page_path(page), authorization) for page in (1, 3, 51, 100, 1_000)),
        *[create] * 3,
        *[change] * 2,
        *[Request(call, authorization, "POST", estimate)] * 2,
        Request(SIGNERS.path, authorization, "POST", '{"type": "NNN"}', status=400),
        Request(SIGNERS.path, "Bearer nobody", status=401),
        Request("/api/v1/relayers/nobody/rpc", authorization, "POST", estimate, status=404),
    ]
    for number, request in enumerate(cycle(several)):
        yield request.encoded(str(number)), request


def resident_megabytes(process: int) -> float:
    """Return the resident memory of the web process: the largest of a server's processes."""
    return max(int(status(each)["VmRSS"].removesuffix(" kB")) for each in family(process)) / 1024


def family(process: int) -> Iterator[int]:
    """Yield a process and all that descend from it."""
    yield process
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in file.read_text().split():
            yield from family(int(child))


def status(process: int) -> dict[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
