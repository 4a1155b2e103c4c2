"""The command `check_lanes`: what it finds in the database and on the chain, and its exit code."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext
from eth_account import Account
from eth_utils.crypto import keccak

from chain.transactions.decoding import decode
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from spending.models import SpendingLimit
from tests.chain import faults
from tests.relayers import factories as relayers
from tests.relayers.config_files import OTHER_KEY
from tests.relayers.factories import ADDRESS, KEY
from tests.servers import free_port
from tests.transactions import factories
from tests.transactions.factories import RECEIVER, SIGNED_AT
from tests.transactions.limits import limit_relayer
from transactions.models import Attempt, Charge, Lane, Status, Transaction

pytestmark = pytest.mark.django_db

PURPOSE, KIND = Attempt.Purpose, Transaction.Kind
CONFIRMED: dict[str, Any] = {"status": Status.CONFIRMED, "finished_at": SIGNED_AT}
LANE = f"{ADDRESS} on chain 31337 (relayer relayer-1)"


class Node:
    """A node with these transactions in its blocks."""

    def __init__(self) -> None:
        self.count = 0
        self.mined: set[str] = set()

    def answer(self, call: dict[str, Any]) -> dict[str, Any]:
        match call["method"]:
            case "eth_chainId":
                return {"result": hex(31337)}
            case "eth_getTransactionCount":
                return {"result": hex(self.count)}
            case _:
                assert call["method"] == "eth_getTransactionByHash"
                (wanted,) = call["params"]
                return {"result": {"hash": wanted, "blockNumber": "0x1"} if wanted in self.mined else None}


@pytest.fixture
def node() -> Iterator[Node]:
    found = Node()
    with faults.node(faults.each(found.answer)) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        relayers.relayer(network="hardhat", rpc_urls=[{"url": url, "weight": 1}])
        yield found


@pytest.fixture
def lane(node: Node) -> Lane:
    return factories.lane(Relayer.objects.get())


def sign(row: Transaction, **changes: Any) -> Attempt:
    """Add an attempt that is signed; `fields` differ from what the row requests."""
    fields = {
        "to": row.to,
        "value": row.value,
        "data": "0x",
        "nonce": row.nonce,
        "gas": 21_000,
        "chainId": 31337,
        "maxFeePerGas": int(changes.get("max_fee_text", "100")),
        "maxPriorityFeePerGas": int(changes.get("max_priority_fee_text", "10")),
    } | changes.pop("fields", {})
    raw = bytes(Account.sign_transaction(fields, changes.pop("key", KEY)).raw_transaction)
    prices = {"max_fee_text": "100", "max_priority_fee_text": "10"}
    return factories.attempt(row, **({"raw": raw, "hash": f"0x{keccak(raw).hex()}"} | prices | changes))


def confirm(lane: Lane, node: Node, count: int) -> list[Transaction]:
    """Add confirmed transactions at the next nonces, which the node has in its blocks."""
    rows = []
    for nonce in range(lane.next_nonce or 0, (lane.next_nonce or 0) + count):
        row = factories.transaction(lane, identifier=f"tx-{nonce}", nonce=nonce, status=Status.SUBMITTED)
        attempt = sign(row)
        Transaction.objects.filter(pk=row.pk).update(mined_attempt=attempt, **CONFIRMED)
        node.mined.add(attempt.hash)
        rows.append(row)
    Lane.objects.filter(pk=lane.pk).update(next_nonce=(lane.next_nonce or 0) + count)
    lane.refresh_from_db()
    node.count = lane.next_nonce or 0
    return rows


def check(*arguments: str) -> tuple[list[str], int]:
    """Run the command; return the lines on standard output, and the exit code."""
    output = io.StringIO()
    try:
        call_command("check_lanes", *arguments, stdout=output)
    except CommandError as error:
        return output.getvalue().splitlines(), error.returncode
    return output.getvalue().splitlines(), 0


def violated(next_nonce: int, *texts: str) -> tuple[list[str], int]:
    head = f"{LANE}, nonces 0 to {next_nonce - 1}: VIOLATED"
    return [head, *(f"  {text}" for text in texts), f"1 checked, {len(texts)} violations, 0 could not be read."], 1


def flying(lane: Lane, **changes: Any) -> Transaction:
    """Create a transaction with nonce 0 that is not mined."""
    Lane.objects.filter(pk=lane.pk).update(next_nonce=1)
    return factories.transaction(lane, **{"identifier": "tx-0", "nonce": 0, "status": Status.SENT} | changes)


def test_a_lane_that_agrees_with_the_chain_is_ok(lane: Lane, node: Node) -> None:
    Lane.objects.update(first_nonce=None, next_nonce=None)
    assert check() == ([f"{LANE}, no nonce yet: ok", "1 checked, 0 violations, 0 could not be read."], 0)
    Lane.objects.update(first_nonce=0, next_nonce=0)
    confirm(lane, node, 3)
    assert check() == ([f"{LANE}, nonces 0 to 2: ok", "1 checked, 0 violations, 0 could not be read."], 0)


@pytest.mark.parametrize(
    ("count", "next_nonce", "text"),
    [
        (1, 1, "nonce 1 of transaction tx-1 was never assigned"),
        (3, 2, "the chain's count is 3, above the next nonce 2: others used the account"),
        (1, 2, "the chain's count is 1, below the next nonce 2, and nothing is in flight"),
    ],
)
def test_counts_and_nonces_that_contradict_each_other_are_violations(
    lane: Lane, node: Node, count: int, next_nonce: int, text: str
) -> None:
    confirm(lane, node, 2)
    node.count = count
    Lane.objects.update(next_nonce=next_nonce)
    assert check() == violated(next_nonce, text)


def test_a_nonce_without_a_row_or_without_a_transaction_on_the_chain_is_a_violation(lane: Lane, node: Node) -> None:
    rows = confirm(lane, node, 3)
    rows[0].delete()
    node.mined.remove(rows[1].attempts.get().hash)
    unmined = "nonce 1 of transaction tx-1 is used, and none of its attempts is on the chain"
    assert check() == violated(3, "nonce 0 belongs to no row", unmined)
    # Only the newest nonces are read.
    assert check("--nonces", "2") == violated(3, unmined)
    assert check("--nonces", "1")[1] == 0
    with pytest.raises(CommandError, match="argument --nonces: must be at least 1"):
        call_command("check_lanes", "--nonces=0")


@pytest.mark.parametrize(("is_signed", "count"), [(True, 1), (False, 0)])
def test_what_is_not_settled_yet_is_no_violation(lane: Lane, node: Node, is_signed: bool, count: int) -> None:
    if is_signed:
        sign(flying(lane, status=Status.SUBMITTED))
        node.count = count
    else:
        confirm(lane, node, 2)
        node.count = 1
        factories.transaction(lane, identifier="open")
    assert check()[1] == 0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"fields": {"to": ADDRESS}}, f"has the receiver {ADDRESS.lower()}, not {RECEIVER.lower()}"),
        ({"fields": {"value": 7}}, "has the value 7, not 0"),
        ({"fields": {"data": "0x01"}}, "has the data 0x01, not 0x"),
        ({"fields": {"nonce": 5}}, "has the nonce 5, not 0"),
        ({"fields": {"chainId": 1}}, "has the chain ID 1, not 31337"),
        ({"key": OTHER_KEY}, f"has the sender {RECEIVER.lower()}, not {ADDRESS.lower()}"),
        ({"hash": f"0x{1:064x}"}, None),
        ({"purpose": PURPOSE.CLOSE}, f"has the receiver {RECEIVER.lower()}, not {ADDRESS.lower()}"),
        ({"raw": b"\x02\x01"}, "is not a signed transaction: it is not an encoded transaction"),
    ],
)
def test_an_attempt_that_signs_something_else_is_a_violation(
    lane: Lane, node: Node, changes: dict[str, Any], text: str | None
) -> None:
    attempt = sign(flying(lane), **changes)
    right = f"has the hash 0x{keccak(bytes(attempt.raw)).hex()}, not {attempt.hash}"
    of_row = "" if "raw" in changes else " of transaction tx-0"
    assert check() == violated(1, f"attempt {attempt.hash}{of_row} {text or right}")


def no_op(row: Transaction, **changes: Any) -> Attempt:
    return sign(row, purpose=PURPOSE.EXPIRE, fields={"to": ADDRESS, "value": 0}, **changes)


def test_a_no_op_beside_the_request_is_no_violation(lane: Lane, node: Node) -> None:
    row = flying(lane, value_text="5")
    sign(row)
    no_op(row, max_fee_text="113", max_priority_fee_text="12")
    assert check()[1] == 0


def requeued(lane: Lane, **owner: Any) -> None:
    """Sign a transaction for nonce 0, which another row has by now, and an hour later for nonce 1."""
    row = factories.transaction(lane, identifier="tx-0", nonce=0, status=Status.SENT)
    sign(row)
    Transaction.objects.filter(pk=row.pk).update(nonce=1)
    row.refresh_from_db()
    sign(row, purpose=PURPOSE.SEND, signed_at=SIGNED_AT + timedelta(hours=1))
    values = {"identifier": "owner", "nonce": 0, "kind": KIND.EXTERNAL, "status": Status.SUBMITTED}
    other = factories.transaction(lane, **values)
    used = factories.attempt(other, purpose=owner.pop("purpose", PURPOSE.EXTERNAL), hash=f"0x{1:064x}")
    Transaction.objects.filter(pk=other.pk).update(mined_attempt=used, **(CONFIRMED | owner))
    Lane.objects.update(next_nonce=2)


TWICE = "transaction tx-0 was signed for the nonces 0 and 1, and no other program had finally used the first"


@pytest.mark.parametrize(
    ("owner", "is_violation"),
    [
        ({}, False),
        ({"status": Status.MINED, "finished_at": None}, True),
        ({"finished_at": SIGNED_AT + timedelta(hours=2)}, True),
    ],
)
def test_a_second_nonce_before_the_first_was_finally_used_is_a_violation(
    lane: Lane, node: Node, owner: dict[str, Any], is_violation: bool
) -> None:
    requeued(lane, **owner)
    if is_violation:
        assert check() == violated(2, TWICE)
    else:
        node.count, node.mined = 1, {f"0x{1:064x}"}
        assert check() == ([f"{LANE}, nonces 0 to 1: ok", "1 checked, 0 violations, 0 could not be read."], 0)


@pytest.mark.parametrize(
    ("prices", "bump", "is_violation"),
    [
        (("100", "10"), ("113", "12"), False),
        (("100", "10"), ("112", "12"), True),
        (("100", "10"), ("113", "11"), True),
        # Of nothing, one wei.
        (("0", "0"), ("1", "0"), True),
    ],
)
def test_a_bump_is_at_least_an_eighth(
    lane: Lane, node: Node, prices: tuple[str, str], bump: tuple[str, str], is_violation: bool
) -> None:
    row = flying(lane)
    first, second = (sign(row, max_fee_text=fee, max_priority_fee_text=tip) for fee, tip in (prices, bump))
    text = f"attempt {second.hash} for nonce 0 is less than an eighth above attempt {first.hash}"
    expected = violated(1, text) if is_violation else 0
    assert (check() if is_violation else check()[1]) == expected


def test_a_price_above_what_the_client_allows_is_a_violation(lane: Lane, node: Node) -> None:
    attempt = sign(flying(lane, pricing="eip1559", max_fee_text="99", max_priority_fee_text="10"))
    assert check() == violated(1, f"attempt {attempt.hash} pays 100 wei, and its request allows 99")


def test_a_price_above_the_cap_is_a_violation_unless_it_was_set_later(lane: Lane, node: Node) -> None:
    attempt = sign(flying(lane))
    Relayer.objects.update(policies={"gas_price_cap": 99})
    assert check() == violated(1, f"attempt {attempt.hash} pays 100 wei, and the cap is 99")
    AuditEntry.objects.create(
        at=SIGNED_AT + timedelta(minutes=1),
        object_type="relayer",
        object_pk=str(Relayer.objects.get().pk),
        action="changed",
        changes={"policies.gas_price_cap": [None, 99]},
    )
    assert check()[1] == 0


@pytest.mark.parametrize(("price", "code"), [("128", 0), ("129", 1)])
def test_a_no_op_may_exceed_the_cap_by_two_bumps(lane: Lane, node: Node, price: str, code: int) -> None:
    no_op(flying(lane), max_fee_text=price)
    Relayer.objects.update(policies={"gas_price_cap": 100})
    assert check()[1] == code


def test_a_chain_that_cannot_be_read_has_its_own_exit_code() -> None:
    url = f"http://127.0.0.1:{free_port()}/s3cret"
    factories.lane(relayers.relayer(network="hardhat", rpc_urls=[{"url": url, "weight": 1}]))
    assert check() == (
        [
            f"{LANE}, no nonce yet: No node answered: connection failed.",
            "1 checked, 0 violations, 1 could not be read.",
        ],
        2,
    )


def test_a_relayer_without_a_lane_is_an_error(node: Node) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("check_lanes", "--relayer", "relayer-1")
    text = "No lane belongs to: relayer-1. A relayer gets one with its first transaction."
    assert (str(refused.value), refused.value.returncode) == (text, 2)


def test_payloads_of_replaced_versions_are_compared_with_each_other(lane: Lane, node: Node) -> None:
    """The row has only the newest payload."""
    row = flying(lane, payload_version=2)
    sign(row, fields={"value": 1})
    sign(row, fields={"value": 1}, max_fee_text="120", max_priority_fee_text="12")
    fees = {"max_fee_text": "150", "max_priority_fee_text": "15"}
    newest = sign(row, purpose=PURPOSE.REPLACE, payload_version=2, **fees)
    assert check()[1] == 0
    Attempt.objects.filter(pk=newest.pk).update(payload_version=1)
    assert check() == violated(1, f"attempt {newest} has another payload than others of version 1")


def test_lanes_that_share_a_limit_check_it_once(lane: Lane, node: Node) -> None:
    """Each check reads all charges of the limit."""
    assert lane.relayer is not None
    limit = SpendingLimit.objects.create(policy=limit_relayer(lane.relayer, max_value_per_day="9"), name="value")
    counts = []
    for number in range(3):
        row = factories.transaction(Lane.objects.create(chain_id=31337, address=f"0x{number:040x}"))
        Charge.objects.create(transaction=row, limit=limit, hour=1, amount_text="0", reserved_text="0")
        with CaptureQueriesContext(connection) as queries:
            check()
        counts.append(sum('"transactions_charge"' in query["sql"] for query in queries))
    assert counts == 3 * [counts[0]]


def test_an_attempt_is_decoded_once(lane: Lane, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    decoding = Mock(side_effect=decode)
    for module in ("transactions.repair.invariants", "transactions.records.signed_payloads"):
        monkeypatch.setattr(f"{module}.decode", decoding)
    sign(flying(lane))
    check()
    assert decoding.call_count == 1
