"""Automatic top-ups on a real chain: a shortage is topped up once, within limits, and only by who can pay."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry
from relayers.models import Relayer, RelayerHealth
from tests.chaos.cases import TOP_UP_POINTS
from tests.concurrency import in_threads
from tests.forked_workers import Source
from tests.relayers import factories
from tests.transactions import accounts
from tests.transactions import factories as lane_factories
from tests.transactions.funding import ETH, FUNDS, Funded, let_top_ups_age
from tests.transactions.limits import limit_relayer
from tests.transactions.mempool import MempoolChain
from transactions.models import Lane, Status, TopUp, Transaction
from transactions.requests import actions
from transactions.top_ups import finding, sending


@pytest.fixture
def funded(mempool: MempoolChain, transactional_db: None, settings: Any) -> Funded:
    settings.EXTENSIONS = ["transactions"]
    return Funded(mempool)


def test_a_lane_that_waits_for_funds_is_topped_up_and_goes_on(funded: Funded) -> None:
    funded.has(ETH // 2)
    # The last check was before the balance fell: the lane waits, and that is enough.
    RelayerHealth.objects.filter(relayer__identifier="poor").update(balance_text=str(2 * ETH))
    identifier = funded.poor.send(b"1" * 32, value=0, gas_limit=100_000)
    Transaction.objects.filter(identifier=identifier).update(value_text=str(ETH), data=b"", to=funded.rich.address)
    funded.work()
    assert Lane.objects.get(relayer=funded.poor.relayer).waiting == "funds"

    funded.sweep()
    top_up = funded.last()
    assert (top_up.state, top_up.amount, top_up.balance_text) == ("open", 5 * ETH // 2, str(ETH // 2))
    assert top_up.transaction is not None
    assert top_up.transaction.requested_by == "Top-up of relayer poor"
    funded.work(8)

    assert Transaction.objects.get(identifier=identifier).status == Status.CONFIRMED
    funded.sweep()
    funded.work()
    funded.sweep()
    assert funded.states() == [("succeeded", 2)]
    assert funded.received() == 5 * ETH // 2


def test_the_next_one_needs_a_balance_of_a_later_block(funded: Funded) -> None:
    funded.sweep()
    funded.work()
    assert funded.requests() == [(funded.poor.address, 3 * ETH, "mined")]
    funded.has(0)
    funded.sweep()
    assert funded.states() == [("open", 3)]

    funded.work(3)
    assert funded.requests() == [(funded.poor.address, 3 * ETH, "confirmed")]
    # Its end is noted, with the block until which a balance may be from before.
    funded.sweep()
    assert funded.states() == [("open", 3)]
    assert funded.last().final_block == funded.chain.head()
    funded.sweep()
    assert funded.states() == [("open", 3)]

    funded.chain.block()
    funded.sweep()
    assert funded.states() == [("succeeded", 3), ("open", 3)]


@pytest.mark.parametrize("name", ["block", "final_block"])
def test_a_block_that_does_not_exist_holds_up_no_top_up(funded: Funded, name: str) -> None:
    funded.sweep()
    funded.work(3)
    assert funded.requests() == [(funded.poor.address, 3 * ETH, "confirmed")]
    # A node reported a head that was too high when the balance was read, or when the transaction was settled.
    TopUp.objects.update(**{name: funded.chain.head() + 1_000_000})
    funded.has(0)
    for _ in range(2):
        funded.work()
        funded.sweep()
    funded.has(0)
    funded.sweep()
    assert funded.states() == [("succeeded", 3), ("open", 3)]


@pytest.fixture
def source(funded: Funded, tmp_path: Path) -> Iterator[Source]:
    source = Source(tmp_path / "log", EXTENSIONS="transactions")
    yield source
    source.end()


def swept_by_processes(source: Source, *crashes: str) -> list[int]:
    """Sweep in as many processes at once, each killed at its step, and return their exit codes."""
    started = [source.call("transactions.top_ups.finding:sweep", each) for each in crashes]
    return [each.wait() for each in started]


def test_kills_at_every_step_neither_lose_nor_double_it(funded: Funded, source: Source) -> None:
    for step in TOP_UP_POINTS[:-2]:
        assert swept_by_processes(source, step) == [-signal.SIGKILL]
        # One transaction writes both, or none.
        assert (TopUp.objects.count(), Transaction.objects.count()) == (0, 0)
    assert swept_by_processes(source, "top_up_committed") == [-signal.SIGKILL]
    assert swept_by_processes(source, "", "") == [0, 0]
    assert funded.states() == [("open", 3)]

    funded.work(4)
    assert swept_by_processes(source, "top_up_settled") == [-signal.SIGKILL]
    funded.work()
    assert swept_by_processes(source, "", "") == [0, 0]
    assert funded.states() == [("succeeded", 3)]
    assert (funded.received(), funded.balance(), len(funded.requests())) == (3 * ETH, 3 * ETH, 1)


@pytest.mark.parametrize("depth", [1, 2])
def test_a_reorg_of_a_top_up_does_not_double_it(funded: Funded, depth: int) -> None:
    funded.sweep()
    funded.work(depth)
    assert funded.requests()[0][2] in {"mined", "confirmed"}
    funded.chain.reorg(depth, keeps_mempool=False)
    assert funded.balance() == 0
    for _ in range(8):
        funded.sweep()
        funded.work()
    funded.sweep()

    assert funded.states() == [("succeeded", 3)]
    assert (funded.received(), funded.balance()) == (3 * ETH, 3 * ETH)


def test_a_failed_one_that_was_signed_counts_until_a_second_node_reports_it_too(funded: Funded) -> None:
    """A node that lies would otherwise have it paid again and again."""
    for nonce in range(2):
        funded.sweep()
        Transaction.objects.filter(status=Status.PENDING).update(**lane_factories.final("failed"))
        funded.sweep()
        funded.chain.block()
        funded.sweep()
        row = Transaction.objects.latest("sequence")
        row.nonce = nonce
        lane_factories.attempt(row)
        let_top_ups_age(minutes=5)
    funded.sweep()
    assert funded.states() == [("failed", 3), ("failed", 3), ("blocked", 3)]
    Transaction.objects.update(corroborated_at=database_now())
    let_top_ups_age(minutes=5)
    funded.chain.block()
    funded.sweep()
    assert funded.states()[-1] == ("open", 3)


def test_a_failed_one_is_tried_again_later(funded: Funded) -> None:
    funded.sweep()
    row = Transaction.objects.get()
    Transaction.objects.filter(pk=row.pk).update(
        **lane_factories.final("failed"), status_reason="The signer refuses it."
    )
    funded.sweep()
    funded.chain.block()
    funded.sweep()
    assert funded.states() == [("failed", 3)]
    assert funded.last().reason == "It is failed. The signer refuses it."
    funded.chain.block()
    funded.sweep()
    assert funded.states() == [("failed", 3)]

    let_top_ups_age(minutes=2)
    funded.sweep()
    assert funded.states() == [("failed", 3), ("open", 3)]
    # The next pause is longer.
    Transaction.objects.update(**lane_factories.final("failed"))
    funded.sweep()
    funded.chain.block()
    funded.sweep()
    assert [each.failures for each in TopUp.objects.order_by("pk")] == [1, 2]
    let_top_ups_age(seconds=90)
    funded.sweep()
    assert funded.states() == [("failed", 3), ("failed", 3)]

    # Enough by other means.
    funded.has(5 * ETH)
    let_top_ups_age(minutes=10)
    funded.sweep()
    assert not TopUp.objects.exclude(due_at=None).exists()


def test_no_more_than_the_daily_limit_is_sent(funded: Funded) -> None:
    for _ in range(2):
        funded.has(0)
        funded.sweep()
        funded.work(4)
        funded.sweep()
        funded.chain.block()
        funded.sweep()
    assert funded.states() == [("succeeded", 3), ("succeeded", 3)]

    funded.has(0)
    funded.sweep()
    assert funded.states() == [("succeeded", 3), ("succeeded", 3), ("blocked", 3)]
    assert funded.last().reason == (
        "3 ETH are missing, and the daily limit of 7 ETH leaves 1 ETH of what can be sent in 24 hours."
    )
    let_top_ups_age(hours=23)
    funded.sweep()
    assert funded.states()[-1] == ("blocked", 3)

    let_top_ups_age(hours=2)
    funded.sweep()
    assert funded.states() == [("succeeded", 3), ("succeeded", 3), ("open", 3)]


def test_what_the_funding_relayer_needs_itself_is_reserved(funded: Funded) -> None:
    Relayer.objects.filter(identifier="rich").update(reserve_text=str(96 * ETH))
    funded.rich.send(b"2" * 32, value=ETH)
    funded.sweep()

    assert funded.states() == [("blocked", 3)]
    assert funded.last().reason.startswith("The funding relayer rich cannot pay: 0.00")
    assert "of which 1 ETH is kept for its other transactions and 96 ETH as its reserve." in funded.last().reason
    assert len(funded.requests()) == 1

    funded.chain.set_balance(funded.rich.address, FUNDS + ETH)
    funded.chain.block()
    let_top_ups_age(minutes=2)
    funded.sweep()
    assert funded.states() == [("open", 3)]


def test_top_ups_at_once_do_not_drain_the_funding_relayer_below_its_reserve(funded: Funded) -> None:
    """Each is decided by the same balance, which covers one of them."""
    other = accounts.sender(funded.chain, funded.chain.ledger, "other", **funded.top_up)
    Relayer.objects.filter(identifier="rich").update(reserve_text=str(96 * ETH))
    funded.chain.set_balance(other.address, 0)
    funded.has(0)
    now, pairs = database_now(), finding.read([funded.poor.relayer, other.relayer])
    decided = [finding.prepare(*each, now) for each in pairs]
    in_threads(*(partial(sending.decide, each) for each in decided))
    assert sorted(funded.states()) == [("blocked", 3), ("open", 3)]

    # The gas of both is known only to the lane: it lets the second one wait.
    funded.rich.send(b"3" * 32, value=ETH)
    funded.work(2)
    rows = Transaction.objects.filter(relayer=funded.rich.relayer).order_by("sequence")
    assert [(row.status, row.reason_code) for row in rows][1] == ("pending", "funds")
    assert int(funded.chain.rpc("eth_getBalance", funded.rich.address, "latest"), 16) >= 96 * ETH


def test_a_refusal_by_a_spending_rule_is_reported_once(funded: Funded) -> None:
    limit_relayer(funded.rich.relayer, max_value=str(ETH))
    for balance in (0, ETH // 2):
        funded.has(balance)
        funded.sweep()
        let_top_ups_age(minutes=2)
    assert funded.last().reason == (
        "The funding relayer rich refuses it: Refused by the spending rule max_value of the relayer: "
        f"Value {5 * ETH // 2} wei; the maximum of a transaction is {ETH} wei."
    )

    limit_relayer(funded.rich.relayer, receivers=[])
    for _ in range(2):
        funded.sweep()
        let_top_ups_age(minutes=2)
    assert funded.states() == [("blocked", 2)]

    reasons = [entry.reason for entry in AuditEntry.objects.for_row(funded.rich.relayer)]
    refused = f"Refused a transaction to {funded.poor.address} by the spending rule {{}} of the relayer."
    assert sorted(reasons) == [refused.format("max_value"), refused.format("receivers")]


def test_one_that_was_replaced_succeeds_only_if_the_relayer_got_its_coins(funded: Funded) -> None:
    for to, value, expected in ((funded.rich.address, 3 * ETH, "failed"), (funded.poor.address, 4 * ETH, "succeeded")):
        funded.has(0)
        funded.sweep()
        row = funded.last().transaction
        assert row is not None
        actions.replace(row.pk, {"to": to, "value": value}, by="ops")
        funded.work(4)
        funded.sweep()
        funded.chain.block()
        funded.sweep()
        assert funded.states()[-1] == (expected, 3)
        let_top_ups_age(minutes=2)

    failed = TopUp.objects.get(state="failed")
    assert failed.reason == f"Its transaction was replaced: 3 ETH went to {funded.rich.address}."


def test_who_has_enough_is_paused_or_has_no_funding_relayer_gets_nothing(funded: Funded) -> None:
    Relayer.objects.filter(identifier="poor").update(paused=True)
    funded.sweep()
    Relayer.objects.filter(identifier="poor").update(paused=False)
    funded.has(ETH)
    funded.sweep()
    # The last check was before somebody else sent coins.
    RelayerHealth.objects.filter(relayer__identifier="poor").update(balance_text="0")
    funded.sweep()
    funded.has(0)
    none = {"top_up_minimum_text": "", "top_up_target_text": "", "top_up_daily_limit_text": ""}
    Relayer.objects.filter(identifier="poor").update(funding_relayer=None, **none)
    funded.sweep()

    assert funded.states() == []


def test_sweeps_at_once_top_up_once(funded: Funded) -> None:
    found = finding.read(finding.candidates())
    late, *decisions = [finding.prepare(*each, database_now()) for each in found * 5]

    in_threads(*(partial(sending.decide, decision) for decision in decisions))

    assert funded.states() == [("open", 3)]
    assert funded.requests() == [(funded.poor.address, 3 * ETH, "pending")]
    funded.work(5)
    funded.sweep()
    funded.work()
    funded.sweep()
    assert funded.states() == [("succeeded", 3)]
    # A worker that read a balance from before the last one, and slept until now, decides nothing.
    sending.decide(late)
    assert funded.states() == [("succeeded", 3)]


def test_a_top_up_that_is_refused_or_would_be_wrong_sends_nothing(funded: Funded) -> None:
    rich, poor = (Relayer.objects.filter(identifier=name) for name in ("rich", "poor"))
    amounts = {name: getattr(funded.poor.relayer, name) for name in ("top_up_minimum_text", "top_up_target_text")}
    # Two changes at the same time can complete a cycle, as each is valid alone.
    cycle = {"funding_relayer": funded.poor.relayer, "top_up_daily_limit_text": "9", **amounts}
    other_key = factories.signer("other-key")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (rich, {"paused": True}, "The funding relayer rich refuses it: Relayer paused."),
        (
            rich,
            {"policies": {"whitelist_receivers": [factories.ADDRESS]}},
            "The relayer rich cannot send it: The relayer's policy whitelist_receivers",
        ),
        (rich, cycle, "cannot fund itself"),
        # The key was replaced at its provider: nobody may have that of the address.
        (poor, {"signer": other_key}, f"The relayer's address is {funded.poor.address}, but its signer's is "),
    ]
    for rows, changes, reason in cases:
        before = rows.values(*changes).get()
        rows.update(**changes)
        funded.sweep()
        assert funded.states() == [("blocked", 3)]
        assert reason in funded.last().reason
        rows.update(**before)
        TopUp.objects.all().delete()
    assert funded.requests() == []
