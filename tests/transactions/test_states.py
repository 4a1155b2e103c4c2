"""The table of transitions: each row of it, everything that is not in it, and the docs that show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from tests.conftest import Log
from tests.relayers import factories as relayers
from tests.transactions import factories
from transactions.changes import Changes, lock_rows
from transactions.models import FINAL, NOOPS, Attempt, Status, StatusChange, Transaction
from transactions.records.states import ANY, TRANSITIONS, Cause, InvalidTransition, Transition, target
from transactions.settlement.judging import Mined
from transactions.settlement.reading import Block, Receipt
from transactions.settlement.writing import write

Kind = Transaction.Kind
NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
AT_NONCE, ELSEWHERE = Attempt(nonce=7, epoch=1, purpose="send"), Attempt(nonce=6, epoch=1, purpose="send")
NOOP, FORMER = Attempt(nonce=7, epoch=1, purpose="cancel"), Attempt(nonce=7, epoch=0, purpose="send")
ENDS: dict[str, Any] = {"kind": Kind.REQUEST, "nonce": 7, "mined_attempt": AT_NONCE}
ALL = {(status, action, cause) for status, action, cause in product(Status, ANY, Cause)}
DOCS = Path(__file__).parents[2] / "docs" / "transactions.md"


def row(status: str = Status.PENDING, action: str = "", **changes: Any) -> Transaction:
    values = {"epoch": 1, "valid_until": NOW + timedelta(hours=1)}
    return Transaction(status=status, requested_action=action, **(values | changes))


def is_allowed(cause: Cause, given: Transaction, **columns: Any) -> bool:
    try:
        target(given, cause, columns, NOW)
    except InvalidTransition:
        return False
    return True


# What makes each guard true, and what makes it false, by the cause and the first status.
GUARDS: dict[tuple[Cause, Status], tuple[dict[str, Any], list[dict[str, Any]]]] = {
    (Cause.COMMITTED, Status.PENDING): (
        {"nonce": 7, "last_attempt": AT_NONCE},
        [
            {"nonce": None},
            {"last_attempt": None},
            {"last_attempt": ELSEWHERE},
            {"last_attempt": FORMER},
            {"valid_until": NOW},
        ],
    ),
    (Cause.CANCELED, Status.PENDING): ({"nonce": None}, [{"nonce": 7}]),
    (Cause.EXPIRED, Status.PENDING): ({"nonce": None, "valid_until": NOW}, [{"nonce": 7}]),
    (Cause.REFUSED, Status.PENDING): ({"nonce": None}, [{"nonce": 7}]),
    (Cause.ADOPTED, Status.PENDING): ({"nonce": 7, "last_attempt": AT_NONCE}, [{"nonce": None}, {"nonce": 8}]),
    (Cause.RECEIVED, Status.SENT): ({"nonce": 7, "last_attempt": AT_NONCE}, [{"last_attempt": ELSEWHERE}]),
    (Cause.MINED, Status.SENT): (
        {"nonce": 7, "mined_attempt": AT_NONCE},
        [{"mined_attempt": None}, {"mined_attempt": ELSEWHERE}, {"mined_attempt": FORMER}],
    ),
    (Cause.NONCE_TAKEN, Status.SENT): ({"nonce": None}, [{"nonce": 7}, {"kind": Kind.GAP}]),
    (Cause.GAP_TAKEN, Status.SENT): ({"nonce": None, "kind": Kind.GAP}, [{"nonce": 7}, {"kind": Kind.REQUEST}]),
    (Cause.FOUND, Status.SUBMITTED): (
        {"nonce": 7, "mined_attempt": AT_NONCE, "kind": Kind.EXTERNAL},
        [{"mined_attempt": None}, {"kind": Kind.REQUEST}, {"kind": Kind.GAP}],
    ),
    (Cause.REORGED, Status.MINED): (
        {"nonce": 7, "mined_attempt": None},
        [{"nonce": None}, {"mined_attempt": AT_NONCE}],
    ),
    (Cause.GAP_CLOSED, Status.MINED): (
        {"nonce": 7, "mined_attempt": NOOP, "kind": Kind.GAP},
        [{"mined_attempt": None}, {"kind": Kind.REQUEST}],
    ),
    (Cause.NOOP_MINED, Status.MINED): (
        {**ENDS, "mined_attempt": NOOP},
        [{"mined_attempt": AT_NONCE}, {"mined_attempt": None}, {"nonce": 8}, {"kind": Kind.GAP}],
    ),
    (Cause.CHAIN_REPLACED, Status.PENDING): ({"last_attempt": FORMER}, [{"last_attempt": None}]),
    **{
        (cause, status): (
            {**ENDS, "succeeded": succeeded},
            [
                {"succeeded": not succeeded},
                {"succeeded": None},
                {"mined_attempt": NOOP},
                {"mined_attempt": ELSEWHERE},
                {"kind": Kind.GAP},
            ],
        )
        for cause, succeeded in ((Cause.SUCCEEDED, True), (Cause.REVERTED, False))
        for status in (Status.PENDING, Status.MINED)
    },
}


CASES = [(status, action, each) for each in TRANSITIONS for status, action in product(each.statuses, each.actions)]


def test_everything_else_is_refused() -> None:
    """Whatever the columns are: no guard of another transition allows it."""
    others = ALL - {(status, action, each.cause) for status, action, each in CASES}
    assert len(others) > len(ALL) / 2
    every = [columns for columns, _ in GUARDS.values()]
    rows = {each: row(*each) for each in product(Status, ANY)}
    allowed = [
        (status, action, cause)
        for status, action, cause in others
        if any(is_allowed(cause, rows[status, action], **columns) for columns in every)
    ]
    assert allowed == []


@pytest.mark.parametrize(
    ("action", "to"), [("cancel", Status.CANCELED), ("expire", Status.EXPIRED), ("close", Status.FAILED)]
)
def test_the_action_decides_what_a_no_op_was_for(action: str, to: Status) -> None:
    """A cancellation takes over the no-op of an expiry."""
    for purpose in NOOPS - {Attempt.Purpose.GAP}:
        mined = Attempt(nonce=7, epoch=1, purpose=purpose)
        assert target(row("mined", action), Cause.NOOP_MINED, {**ENDS, "mined_attempt": mined}, NOW) == to


def test_not_every_end_depends_on_the_time() -> None:
    """A no-op for an unused nonce has no limit; a replacement can have changed `valid_until` since it expired."""
    columns = {"nonce": 7, "last_attempt": NOOP, "kind": Kind.GAP, "valid_until": NOW}
    assert target(row(), Cause.COMMITTED, columns, NOW) == Status.SENT
    assert not is_allowed(Cause.EXPIRED, row(nonce=None))
    assert is_allowed(Cause.EXPIRED, row(action="expire", nonce=None))


@pytest.mark.django_db
def test_nothing_is_written_when_a_transition_is_refused() -> None:
    lane = factories.lane(relayers.relayer())
    rows = [factories.transaction(lane), factories.transaction(lane)]
    before = list(Transaction.objects.order_by("pk").values())
    with transaction.atomic():
        changes, locked = Changes(), lock_rows(rows)
        with pytest.raises(InvalidTransition, match="is pending"):
            changes.move(locked[rows[0].pk], Cause.MINED, "why", nonce=7)
        assert (locked[rows[0].pk].nonce, locked[rows[0].pk].version) == (None, 1)
        changes.save()
    assert list(Transaction.objects.order_by("pk").values()) == before
    assert not StatusChange.objects.exists()


@pytest.mark.django_db
def test_a_new_reason_replaces_the_code_of_the_one_before() -> None:
    row = factories.transaction(factories.lane(relayers.relayer()), status_reason="before", reason_code="funds")
    with transaction.atomic():
        changes = Changes()
        changes.update(lock_rows([row])[row.pk], status_reason="The price is above the cap.")
        changes.save()
    row.refresh_from_db()
    assert (row.status_reason, row.reason_code) == ("The price is above the cap.", None)


@pytest.mark.django_db
def test_a_verdict_that_is_refused_holds_up_no_other_row(log: Log) -> None:
    lane = factories.lane(relayers.relayer())
    refused, mined = (factories.transaction(lane, status=Status.SENT, nonce=nonce) for nonce in (0, 1))
    for one in (refused, mined):
        factories.attempt(one)
    receipt = Receipt("0x" + "ab" * 32, Block(5, "0x" + "cd" * 32), succeeded=True)
    verdicts = [Mined(one, Attempt.objects.get(transaction=mined), receipt) for one in (refused, mined)]
    with transaction.atomic():
        assert write(verdicts, [lane]) == {lane.pk}
    assert list(Transaction.objects.order_by("nonce").values_list("status", flat=True)) == ["sent", "mined"]
    assert f"A verdict about the transaction {refused.identifier} is not written" in log.text


def rendered() -> list[str]:
    """Return the table as the docs have it."""

    def text(values: Iterable[str]) -> str:
        return ", ".join(f"`{value}`" if value else "none" for value in values)

    lines = ["| from | requested action | cause | to | if | written by |", "|---|---|---|---|---|---|"]
    for each in TRANSITIONS:
        actions = "any" if each.actions == ANY else text(each.actions)
        cells = (text(each.statuses), actions, each.cause, f"`{each.to}`", each.condition.text, each.writer)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def test_the_docs_show_the_table() -> None:
    (section,) = re.findall(r"^### Transitions\n(.*?)^#", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    shown, table = [line for line in section.splitlines() if line.startswith("|")], rendered()
    assert shown == table, "Replace the table of docs/transactions.md, Transitions, by:\n" + "\n".join(table)


@pytest.mark.parametrize("each", TRANSITIONS)
def test_a_transition_is_allowed_with_its_guard_alone(each: Transition) -> None:
    columns, changes = GUARDS[each.cause, each.statuses[0]]
    for status, action in product(each.statuses, each.actions):
        assert target(row(status, action), each.cause, columns, NOW) == each.to
    for change in changes:
        assert not is_allowed(each.cause, row(each.statuses[0], each.actions[-1]), **(columns | change)), change


def test_the_table_is_complete_and_unambiguous() -> None:
    found = [(status, action, each.cause) for status, action, each in CASES]
    assert len(found) == len(set(found))
    assert {status for each in TRANSITIONS for status in each.statuses}.isdisjoint(FINAL)
    assert {each.to for each in TRANSITIONS} == {*Status}
    assert {each.cause for each in TRANSITIONS} == {*Cause}
