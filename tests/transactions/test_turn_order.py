"""The order of a turn, and what an account allows that others use too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from chain.broadcast.sending import Broadcast, Outcome, SignedTransaction
from chain.errors import NodesUnreachable
from chain.readings import gather_each
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.single_turns import take_turn
from transactions.lanes import broadcasting, leasing
from transactions.lanes.work import load
from transactions.models import Attempt, Lane, Transaction

pytestmark = pytest.mark.django_db


@pytest.fixture
def lane(local_chain: LocalChain) -> Lane:
    """A lane that this worker holds."""
    nodes = [{"url": local_chain.url, "weight": 100}]
    claimed = leasing.claim(factories.lane(relayer_factories.relayer(network="hardhat", rpc_urls=nodes)).pk)
    assert claimed is not None
    return claimed


def request(lane: Lane, value: int = 1) -> Transaction:
    return factories.transaction(lane, to=RECEIVER, value_text=str(value))


def state(row: Transaction) -> tuple[str, int | None]:
    row.refresh_from_db()
    return row.status, row.nonce


def test_the_order_of_a_turn(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    committed = []
    for module in ("turn", "commits", "broadcasting", "outcomes"):
        monkeypatch.setattr(f"transactions.lanes.{module}.step", steps.append)

    def send(nodes: Any, transactions: Sequence[SignedTransaction], *args: Any, **kwargs: Any) -> list[Broadcast]:
        stored = Attempt.objects.filter(transaction__status="sent").order_by("nonce").values_list("raw", flat=True)
        committed.append([each.raw for each in transactions] == [bytes(raw) for raw in stored])
        return [Broadcast(Outcome.ACCEPTED)] * len(transactions)

    monkeypatch.setattr(broadcasting, "send", send)
    for value in (1, 2, 3):
        request(lane, value)
    take_turn(lane)

    assert steps == [
        "claimed",
        "read",
        "planned",
        "signed",
        "before_commit",
        "committed",
        "before_broadcast",
        "broadcast",
        "outcomes_written",
    ]
    # Everything that is broadcast was committed before.
    assert committed == [True]


def test_bytes_that_never_left_are_broadcast_before_anything_is_read(
    lane: Lane, local_chain: LocalChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = request(lane)
    take_turn(lane)
    local_chain.drop()
    Transaction.objects.filter(pk=row.pk).update(status="sent")
    Attempt.objects.update(first_broadcast_at=None, last_broadcast_at=None)
    request(lane)

    def fail(*args: Any) -> Any:
        raise NodesUnreachable("connection failed")

    monkeypatch.setattr("transactions.lanes.prices.market.gather_each", fail)
    assert take_turn(lane).failed

    assert (state(row), local_chain.waiting()) == (("submitted", 0), [row.attempts.get().hash])


def test_nodes_are_not_read_for_an_attempt_whose_price_cannot_be_raised_yet(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Any] = []
    row = request(lane)
    take_turn(lane)

    def read(*args: Any) -> Any:
        reads.append(args)
        return gather_each(*args)

    monkeypatch.setattr("transactions.lanes.prices.market.gather_each", read)
    take_turn(lane)
    assert reads == []

    # Half of the 15 seconds after which the price of this speed is raised.
    Attempt.objects.filter(transaction=row).update(first_broadcast_at=F("first_broadcast_at") - timedelta(seconds=8))
    take_turn(lane)
    assert len(reads) == 1


def test_requests_that_wait_do_not_starve_the_ones_behind_them(lane: Lane, local_chain: LocalChain) -> None:
    """Each of the first 400 waits, as no block includes its price: as many turns as batches, without a pause."""
    low = {"pricing": "legacy", "gas_price_text": "1", "to": RECEIVER, "valid_until": factories.VALID_UNTIL}
    Transaction.objects.bulk_create(Transaction(relayer=lane.relayer, lane=lane, **low) for _ in range(400))
    healthy = request(lane)

    pauses: list[float] = []
    while state(healthy) == ("pending", None):
        pauses.append(take_turn(lane).seconds)
        assert len(pauses) <= 26

    # The last turn, in which it is sent, may find no further batch.
    assert set(pauses[:-1]) == {0}
    assert (state(healthy), local_chain.waiting()) == (("submitted", 0), [healthy.attempts.get().hash])


def test_due_rows_are_read_from_their_index(lane: Lane) -> None:
    Transaction.objects.bulk_create(
        Transaction(relayer=lane.relayer, lane=lane, to=RECEIVER, valid_until=factories.VALID_UNTIL)
        for _ in range(200)
    )
    with CaptureQueriesContext(connection) as queries:
        load(lane)
    (due,) = (each["sql"] for each in queries if 'ORDER BY "transactions_transaction"."due_at"' in each["sql"])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE transactions_transaction")
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if connection.vendor == 'sqlite' else ''} {due}")
        plan = str(cursor.fetchall())

    assert "transaction_queue_due" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan
