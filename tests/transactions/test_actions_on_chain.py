"""Cancel, replace and speed up on a chain: both outcomes of each race against mining, and what survives kills."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.chain.answering_node import ChangeNetwork
from tests.transactions import accounts
from tests.transactions.engines import Killed, at_step, kill
from tests.transactions.hardhat import record
from tests.transactions.lab import Lab, attempts
from transactions.models import Attempt, Transaction
from transactions.requests import actions

Purpose = Attempt.Purpose


def replace(lab: Lab, row: Transaction, name: str, **changes: Any) -> None:
    """Request that another name is recorded instead."""
    values = {"to": lab.chain.ledger, "value": 0, "data": record(accounts.ledger_id(name)), "speed": "fast"} | changes
    lab.oracle.replacements[row.identifier].append(accounts.ledger_id(name))
    actions.replace(row.pk, values, by="tests")


def refreshed(row: Transaction) -> Transaction:
    return Transaction.objects.select_related("mined_attempt").get(pk=row.pk)


def end(row: Transaction) -> tuple[str, str, str | None]:
    """Return the status of a row, its reason, and the purpose of what was mined."""
    found = refreshed(row)
    return found.status, found.status_reason, found.mined_attempt.purpose if found.mined_attempt else None


def purposes(row: Transaction) -> list[str]:
    return [each.purpose for each in attempts(row)]


def mine_older(lab: Lab, row: Transaction) -> None:
    """Mine the first attempt of a row: a node that never got the newer ones has the next block."""
    lab.chain.drop()
    lab.chain.send_raw(bytes(attempts(row)[0].raw))
    lab.chain.block()


def carry_out(lab: Lab, row: Transaction, action: str) -> None:
    if action == "cancel":
        actions.cancel(row.pk, by="tests")
    elif action == "replace":
        replace(lab, row, "b")
    else:
        actions.speed_up(row.pk, {}, by="tests")


REPLACED_LATE = "The replacement came too late: the transaction before it was mined."


@pytest.mark.parametrize(
    ("action", "mined", "expected", "payload"),
    [
        ("cancel", "newest", ("canceled", "Its cancellation was requested.", Purpose.CANCEL), "a"),
        ("cancel", "older", ("confirmed", "The cancellation came too late.", Purpose.SEND), "a"),
        ("cancel", "before", ("confirmed", "The cancellation came too late.", Purpose.SEND), "a"),
        ("replace", "newest", ("confirmed", "", Purpose.REPLACE), "b"),
        ("replace", "older", ("confirmed", REPLACED_LATE, Purpose.SEND), "a"),
        ("replace", "before", ("confirmed", REPLACED_LATE, Purpose.SEND), "a"),
        ("speed_up", "newest", ("confirmed", "", Purpose.BUMP), "a"),
        ("speed_up", "older", ("confirmed", "", Purpose.SEND), "a"),
    ],
)
def test_what_is_mined_decides_each_race(
    lab: Lab, action: str, mined: str, expected: tuple[str, str, str], payload: str
) -> None:
    """The payload that is reported is the one that was mined, and the reason says so."""
    row = lab.send("a", speed="safeLow")
    lab.turn()
    if mined == "before":
        lab.chain.block()
        carry_out(lab, row, action)
    else:
        carry_out(lab, row, action)
        lab.turn()
        newest = {"cancel": ("cancel", 1), "replace": ("replace", 2), "speed_up": ("bump", 1)}[action]
        assert [(each.purpose, each.payload_version) for each in attempts(row)] == [("send", 1), newest]
        assert lab.chain.waiting() == [attempts(row)[1].hash]
        if mined == "older":
            mine_older(lab, row)
    lab.finish()

    assert end(row) == expected
    assert bytes(refreshed(row).data) == record(accounts.ledger_id(payload))
    if action == "speed_up":
        assert refreshed(row).speed == "average"


def test_a_canceled_transaction_that_reverts_first_has_failed(lab: Lab) -> None:
    row = lab.send("a", gas_limit=30_000)
    Transaction.objects.update(requested_gas_limit=30_000)
    lab.sender.relayer.policies |= {"gas_limit_estimation": False}
    lab.sender.relayer.save()
    lab.turn()
    actions.cancel(row.pk, by="tests")
    lab.turn()
    mine_older(lab, row)
    lab.finish()

    reason = "The transaction was executed and reverted. The cancellation came too late."
    assert end(row) == ("failed", reason, Purpose.SEND)


def test_explicit_prices_are_signed_exactly(lab: Lab) -> None:
    row = lab.send("a")
    lab.turn()
    price = {"max_fee_per_gas": 50 * 10**9, "max_priority_fee_per_gas": 40 * 10**9}
    actions.speed_up(row.pk, price, by="tests")
    lab.turn()
    replace(lab, row, "b", speed=None, **{name: 2 * each for name, each in price.items()})
    lab.turn()

    fees = [(int(each.max_fee_text), int(each.max_priority_fee_text)) for each in attempts(row)[1:]]
    assert fees == [(50 * 10**9, 40 * 10**9), (100 * 10**9, 80 * 10**9)]
    lab.finish()


def test_a_replacement_is_replaced_and_then_canceled(lab: Lab) -> None:
    row = lab.send("a")
    lab.turn()
    for name in ("b", "c"):
        replace(lab, row, name)
        lab.turn()
    actions.cancel(row.pk, by="tests")
    lab.turn()

    assert [(each.purpose, each.payload_version) for each in attempts(row)] == [
        ("send", 1),
        ("replace", 2),
        ("replace", 3),
        ("cancel", 3),
    ]
    lab.finish()
    assert end(row)[0] == "canceled"


def test_what_is_behind_a_replacement_goes_on(lab: Lab) -> None:
    rows = [lab.send(name) for name in ("a", "b", "c")]
    lab.turn()
    actions.cancel(rows[0].pk, by="tests")
    replace(lab, rows[1], "d")
    actions.speed_up(rows[2].pk, {"speed": "fastest"}, by="tests")
    lab.turn()
    lab.finish()

    assert lab.statuses() == [(0, "canceled"), (1, "confirmed"), (2, "confirmed")]


@pytest.mark.parametrize("is_signed", [False, True])
def test_the_newest_payload_is_sent_after_the_nonce_was_used_elsewhere(lab: Lab, is_signed: bool) -> None:
    row = lab.send("a")
    lab.turn()
    if is_signed:
        replace(lab, row, "b")
        lab.turn()
    lab.chain.drop()
    lab.oracle.outside.add(lab.chain.spend_nonce(lab.sender.key, lab.sender.address))
    lab.chain.block()
    if not is_signed:
        replace(lab, row, "b")
    lab.finish()

    found = refreshed(row)
    assert (found.nonce, found.status, bytes(found.data)) == (1, "confirmed", record(accounts.ledger_id("b")))


def test_rival_payloads_are_final_at_finality_only(lab: Lab, change_network: ChangeNetwork) -> None:
    """A reorg deeper than the confirmations mines the other payload."""
    change_network(confirmations=2, finality_depth=8)
    row = lab.send("a")
    lab.turn()
    replace(lab, row, "b")
    lab.turn()
    mine_older(lab, row)
    lab.block(3)
    assert refreshed(row).status == "mined"
    lab.chain.reorg(4, keeps_mempool=False)
    lab.look()
    lab.finish()

    assert bytes(refreshed(row).data) == record(accounts.ledger_id("b"))


@pytest.mark.parametrize("step", ["before_commit", "committed"])
@pytest.mark.parametrize("action", ["cancel", "replace", "speed_up"])
def test_a_request_survives_a_kill_and_is_carried_out_once(lab: Lab, action: str, step: str) -> None:
    row = lab.send("a")
    lab.turn()
    carry_out(lab, row, action)
    lab.turn_killed_at(step)
    lab.turn()
    lab.turn()

    assert purposes(row) == [Purpose.SEND, Purpose.BUMP if action == "speed_up" else Purpose(action)]
    lab.finish()


@pytest.mark.parametrize("step", ["requested", "request_committed"])
def test_a_request_is_recorded_whole_or_not_at_all(lab: Lab, step: str) -> None:
    row = lab.send("a")
    lab.turn()
    with at_step(step, kill), suppress(Killed):
        replace(lab, row, "b")

    found = refreshed(row)
    recorded = step == "request_committed"
    assert (found.payload_version, found.requested_action) == ((2, "replace") if recorded else (1, ""))
    lab.finish()
