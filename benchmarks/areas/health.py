"""How long `/health` takes while every thread of its process waits for the database, and while every one computes."""

import json
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.synchronize import Event

from benchmarks import fill, load
from benchmarks.databases import Bench, Database
from benchmarks.load import Message, Request
from benchmarks.report import Failed, Row, medians
from benchmarks.resources import SIGNERS
from benchmarks.targets import SERVICE, Server, serving

ROWS = 1_000
# More than a process has threads.
CALLERS = 80
PROBES, FAST_PROBES = 100, 20
VALUES = {"values": ["x" * 100] * 9_000}
# After which all callers' requests wait.
START_SECONDS = 1
MAX_MS = {"waits": 50, "computes": 500}
# No request of a caller fails while a probe is under way.
SETTINGS = {"DATABASE_LOCK_TIMEOUT_MS": "60000", "DATABASE_STATEMENT_TIMEOUT_MS": "60000"}


def measure(bench: Bench) -> list[Row]:
    probes = FAST_PROBES if bench.fast else PROBES
    with bench.postgresql() as database:
        fill.fill(database, ROWS)
        with serving({SERVICE: (database, SERVICE)}, **SETTINGS) as servers:
            server = servers[SERVICE]
            server.warm_up(SIGNERS.page_path(1), CALLERS)
            idle = probe(server, probes)
            with waiting(server, database):
                waits = probe(server, probes)
            with computing(server):
                computes = probe(server, probes)
    return [row("waits", waits, idle), row("computes", computes, idle)]


def probe(server: Server, times: int) -> list[float]:
    """Return the milliseconds of each probe, all on connections of their own as probes come."""
    request = Request("/health", server.authorization)
    message = (request.encoded(), request)
    return [load.drive(server.port, [message], connections=1).waits[0] * 1000 for _ in range(times)]


@contextmanager
def waiting(server: Server, database: Database) -> Iterator[None]:
    """Start callers that list a locked table."""
    request = server.request(SIGNERS.page_path(1)).encoded()
    with ExitStack() as callers, database.connect() as connection, connection.transaction():
        connection.execute("LOCK TABLE signers_signer IN ACCESS EXCLUSIVE MODE")
        for _ in range(CALLERS):
            caller = callers.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            caller.sendall(request)
        time.sleep(START_SECONDS)
        yield


@contextmanager
def computing(server: Server) -> Iterator[None]:
    """Start callers in another process that send large bodies one after the other; parsing refuses them."""
    context = multiprocessing.get_context("spawn")
    are_busy = context.Event()
    request = Request(SIGNERS.path, server.authorization, "POST", json.dumps(VALUES), status=400)
    process = context.Process(target=send_for_ever, args=(server.port, request, are_busy))
    process.start()
    try:
        are_busy.wait()
        yield
        if not process.is_alive():
            raise Failed("the callers were refused")
    finally:
        process.terminate()
        process.join()


def send_for_ever(port: int, request: Request, are_busy: Event) -> None:
    def messages() -> Iterator[Message]:
        for number in count():
            if number == CALLERS:
                # The first answer has come.
                are_busy.set()
            yield request.encoded(), request

    load.drive(port, messages(), CALLERS)


def row(state: str, milliseconds: list[float], idle: list[float]) -> Row:
    return Row(
        f"/health while every thread {state}: slowest of {len(milliseconds)}",
        round(max(milliseconds), 1),
        "ms",
        "no wait for a thread",
        at_most=MAX_MS[state],
        beside=medians({"ms": milliseconds, "idle ms": idle}, 1),
    )
