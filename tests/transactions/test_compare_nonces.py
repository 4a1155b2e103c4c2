"""The command `compare_nonces`: transactions of other programs that are in flight, and its exit code."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from relayers.models import Relayer
from tests.chain import faults
from tests.relayers import factories as relayers
from tests.transactions import factories
from transactions.models import Lane

pytestmark = pytest.mark.django_db


@contextmanager
def node(latest: int, pending: int | None) -> Iterator[dict[str, Any]]:
    """Yield the entry of a node with these counts; None is one that does not know its pending transactions."""

    def answer(call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] == "eth_chainId":
            return {"result": hex(31337)}
        count = {"latest": latest, "pending": pending}[call["params"][1]]
        return {"result": None if count is None else hex(count)}

    with faults.node(faults.each(answer)) as server:
        yield {"url": server.url, "weight": 1}


def relayer(*nodes: dict[str, Any], **changes: Any) -> Relayer:
    return relayers.relayer(network="hardhat", rpc_urls=list(nodes), **changes)


def compare(*arguments: str) -> tuple[list[str], int]:
    """Run the command; return the lines on standard output, and the exit code."""
    output = io.StringIO()
    try:
        call_command("compare_nonces", *arguments, stdout=output)
    except CommandError as error:
        return output.getvalue().splitlines(), error.returncode
    return output.getvalue().splitlines(), 0


@pytest.mark.parametrize(
    ("latest", "pending", "next_nonce", "line", "code"),
    [
        (7, 7, None, "latest 7, pending 7, next nonce 7: ready", 0),
        (7, 9, None, "latest 7, pending 9: 2 of other programs", 1),
        # What is in flight is the service's own.
        (7, 9, 9, "latest 7, pending 9, next nonce 9: ready", 0),
        (7, 9, 8, "latest 7, pending 9: 1 of other programs", 1),
        (7, 7, 5, "latest 7, pending 7: 2 of other programs", 1),
    ],
)
def test_counts_of_the_chain_are_compared_with_the_next_nonce(
    latest: int, pending: int, next_nonce: int | None, line: str, code: int
) -> None:
    with node(latest, pending) as entry:
        found = relayer(entry)
        if next_nonce is not None:
            factories.lane(found, next_nonce=next_nonce)
        total = f"{1 - code} ready, {code} used by other programs, 0 could not be read."
        assert compare() == ([f"relayer-1: {line}", total], code)


def test_the_node_with_more_and_the_lane_of_an_earlier_relayer_count() -> None:
    with node(7, 7) as first, node(7, 8) as second:
        found = relayer(first, second)
        assert compare()[1] == 1
        found.set_rpc_urls([first])
        found.save()
        assert compare()[1] == 0
        factories.lane(found, next_nonce=5)
        Lane.objects.update(relayer=None)
        assert compare()[1] == 1


def test_a_count_that_cannot_be_read_and_an_unknown_relayer_are_errors() -> None:
    with node(7, None) as entry:
        relayer(entry)
        lines, code = compare("--relayer", "relayer-1")
    assert (lines[-1], code) == ("0 ready, 0 used by other programs, 1 could not be read.", 2)
    assert compare("--relayer", "relayer-2") == ([], 2)
