"""What a request body can cost: 1 MB of every shape, against an ordinary string of that size at the same endpoint.

All in this process, through the WSGI callable, on SQLite.
"""

import os
from itertools import islice

from benchmarks import wsgi
from benchmarks.databases import Bench
from benchmarks.report import Failed, Row
from benchmarks.shapes import ENDPOINTS, SIZE, Endpoint, filled, shapes

MAX_RATIO = 5
# What looks slow in one turn is measured so often, and its best turn counts: the others were disturbed.
TURNS = 7
SUSPECT_RATIO = 1.5
# A fast run takes one shape in so many.
FAST_STEP = 12


def measure(bench: Bench) -> list[Row]:
    database = bench.sqlite()
    os.environ.update(database.environment, LOG_LEVEL="ERROR")
    import django
    from django.db import connections

    django.setup()
    create()
    try:
        return [row_of(endpoint, database.token, fast=bench.fast) for endpoint in ENDPOINTS]
    finally:
        connections.close_all()


def create() -> None:
    """Create what the paths name."""
    from notifications.models import Notification
    from relayers.models import Relayer
    from signers.models import Signer

    Notification.objects.create(identifier="bench", url="https://example.com/")
    signer = Signer(identifier="bench", type="plain")
    signer.set_config({"key": "0x" + "11" * 32})
    signer.save()
    Relayer.objects.create(
        identifier="bench", name="bench", network="hardhat", address="0x" + "11" * 20, signer=signer
    )


def row_of(endpoint: Endpoint, token: str, *, fast: bool) -> Row:
    """Return the slowest shape, as a multiple of the ordinary body's time."""
    ordinary = (endpoint.ordinary % f'"{filled("x", SIZE)}"').encode()
    for _ in range(3):
        seconds(endpoint, ordinary, token)
    turns = [seconds(endpoint, ordinary, token) for _ in range(TURNS)]
    usual = min(turns)
    ratios: dict[str, float] = {}
    for name, body in islice(shapes(endpoint), 0, None, FAST_STEP if fast else 1):
        taken = seconds(endpoint, body, token)
        if taken > SUSPECT_RATIO * usual:
            taken = min(taken, *(seconds(endpoint, body, token) for _ in range(TURNS)))
        ratios[name] = round(taken / usual, 2)
    slowest = sorted(ratios.items(), key=lambda each: -each[1])
    return Row(
        f"{endpoint.name}: slowest of {len(ratios)} bodies of 1 MB",
        slowest[0][1],
        "x",
        "a string of letters of that size",
        at_most=MAX_RATIO,
        beside={"ordinary ms": round(usual * 1000, 1), **dict(slowest[:5])},
    )


def seconds(endpoint: Endpoint, body: bytes, token: str) -> float:
    """Return the processor's time for one request."""
    status, taken = wsgi.call(endpoint.method, endpoint.path, token, body=body)
    if int(status[:3]) not in {200, 201, 400}:
        raise Failed(f"{endpoint.name}: {status} to {body[:80]!r}")
    return taken
