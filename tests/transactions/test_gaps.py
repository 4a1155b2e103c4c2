"""A hole that staff fill: the lane closes the nonce in its next turn, on a real chain."""

from __future__ import annotations

import pytest

from relayer_service.models import AuditEntry
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.models import Lane, Transaction
from transactions.repair.gaps import fill_gap
from transactions.settlement.watching import look

pytestmark = pytest.mark.django_db


def nonces() -> list[tuple[int | None, str, str]]:
    return list(Transaction.objects.order_by("nonce").values_list("nonce", "kind", "status"))


def test_a_filled_hole_frees_the_nonces_above_it(local_chain: LocalChain) -> None:
    local_chain.mine(5)
    urls = [{"url": local_chain.url, "weight": 100}]
    created = factories.lane(relayer_factories.relayer(network="hardhat", rpc_urls=urls), next_nonce=1)
    lane = leasing.claim(created.pk)
    assert lane
    factories.transaction(lane, to=RECEIVER, value_text="1")
    take_turn(lane)
    look([lane])
    take_turn(lane)
    # The service waits a few blocks before it closes the nonce.
    assert nonces() == [(1, "request", "submitted")]

    fill_gap(lane.pk, 0, "Customers wait")
    take_turn(lane)
    local_chain.mine(1)
    look([lane])
    assert nonces() == [(0, "gap", "mined"), (1, "request", "mined")]
    assert [entry.reason for entry in AuditEntry.objects.for_row(Lane.objects.get())] == [
        "Filled the hole at nonce 0. Customers wait"
    ]
