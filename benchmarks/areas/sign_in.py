"""How long `/health` takes while many wrong passwords are tried at once, beside an idle service."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from http.client import HTTPConnection
from urllib.parse import urlencode

from benchmarks import fill
from benchmarks.areas.health import probe
from benchmarks.databases import Bench, run_apart
from benchmarks.load import STATUS, TIMEOUT_SECONDS
from benchmarks.report import Failed, Row, medians
from benchmarks.targets import SERVICE, Server, serving

ROWS = 100
ATTEMPTS = 200
ROUNDS, FAST_ROUNDS = 15, 3
PROBES = 20
AT_MOST = 2.0
# Each round has another address, so that its first passwords are hashed as those of any other.
SETTINGS = {"TRUSTED_PROXIES": "127.0.0.1"}
ALLOWED = {b"200", b"429", b"503"}


def measure(bench: Bench) -> list[Row]:
    rounds = FAST_ROUNDS if bench.fast else ROUNDS
    idle: list[float] = []
    attacked: list[float] = []
    with bench.postgresql() as database:
        fill.fill(database, ROWS)
        # The login page names its static files by their hashes.
        run_apart(["-m", "django", "collectstatic", "--noinput", "--verbosity=0"], database.environment)
        with serving({SERVICE: (database, SERVICE)}, **SETTINGS) as servers:
            server = servers[SERVICE]
            # The first of each is a warm-up.
            for number in range(rounds + 1):
                alone, during = probe(server, PROBES), list(probes_under_attack(server, number))
                if number:
                    idle += alone
                    attacked += during
    return [row("median", 50, attacked, idle), row("95th percentile", 95, attacked, idle)]


def probes_under_attack(server: Server, number: int) -> Iterator[float]:
    """Send all passwords at once, and yield the milliseconds of probes until each has its answer."""
    message = attempt(server, f"198.51.100.{number + 1}")
    with ExitStack() as stack:
        callers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS))
            for _ in range(ATTEMPTS)
        ]
        for caller in callers:
            caller.sendall(message)
        waiting = select.poll()
        for caller in callers:
            waiting.register(caller, select.POLLIN)
        while len(waiting.poll(0)) < ATTEMPTS:
            yield from probe(server, 1)
        for caller in callers:
            status = STATUS.match(caller.recv(4096))
            if status is None or status[1] not in ALLOWED:
                raise Failed(f"an attempt to sign in was answered {status and status[1]!r}")


def attempt(server: Server, address: str) -> bytes:
    """Return a request with a wrong password, as the login page sends it."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_SECONDS)
    connection.request("GET", "/admin/login/", headers={"X-Forwarded-For": address})
    response = connection.getresponse()
    page, cookie = response.read().decode(), (response.getheader("Set-Cookie") or "").partition(";")[0]
    connection.close()
    if response.status != HTTPStatus.OK:
        raise Failed(f"the login page answered {response.status}")
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    body = urlencode({"csrfmiddlewaretoken": token, "username": "benchmarks", "password": "wrong"})
    head = [
        *("POST /admin/login/ HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {cookie}", f"X-Forwarded-For: {address}"),
        *("Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}", "", body),
    ]
    return "\r\n".join(head).encode()


def row(name: str, percent: int, attacked: list[float], idle: list[float]) -> Row:
    return Row(
        f"/health while {ATTEMPTS} wrong passwords are tried at once: {name}",
        round(percentile(attacked, percent) / percentile(idle, percent), 2),
        "x",
        "an idle service",
        at_most=AT_MOST,
        beside=medians({"ms": attacked, "idle ms": idle}, 1),
    )


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]
