"""Spending rules in the turns of a lane on a chain, and after kills."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from unittest.mock import Mock

import pytest

from relayers.models import Relayer
from spending.models import SpendingLimit
from tests.relayers import factories as relayer_factories
from tests.transactions import factories
from tests.transactions.engines import Killed, at_step, kill, let_time_pass
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.lab import Lab
from tests.transactions.lane_values import GWEI, NOW, account, attempt, context, row
from tests.transactions.limits import limit_relayer, policy, used
from tests.transactions.single_turns import take_turn
from transactions.lanes import leasing
from transactions.lanes.prices import planning
from transactions.lanes.prices.bumping import Bump, blocking_reason, review_price
from transactions.lanes.prices.planning import Wait
from transactions.lanes.prices.pricing import bumped
from transactions.limits.budgets import Budget, GasBudget
from transactions.limits.windows import OPEN_HOUR
from transactions.models import IS_OVER_LIMIT, Charge, Lane, Transaction
from transactions.requests import actions
from transactions.settlement.watching import look


@pytest.fixture
def relayer(local_chain: LocalChain) -> Relayer:
    return relayer_factories.relayer(network="hardhat", rpc_urls=[{"url": local_chain.url, "weight": 100}])


@pytest.fixture
def lane(relayer: Relayer) -> Lane:
    """A lane that this worker holds."""
    claimed = leasing.claim(factories.lane(relayer).pk)
    assert claimed is not None
    return claimed


def request(lane: Lane, value: int = 1) -> Transaction:
    return factories.transaction(lane, to=RECEIVER, value_text=str(value))


def state(row: Transaction) -> tuple[str, int | None, str]:
    row.refresh_from_db()
    return row.status, row.nonce, row.status_reason


@pytest.mark.django_db
def test_a_row_that_the_rules_no_longer_allow_fails_with_the_rule(relayer: Relayer, lane: Lane) -> None:
    rows = [request(lane, 5), request(lane, 4)]
    high = factories.transaction(lane, to=RECEIVER, pricing="legacy", speed="", gas_price_text=str(9_000 * GWEI))
    limit_relayer(relayer, max_value="4")
    take_turn(lane)
    rule = "Refused by the spending rule max_value of the relayer"
    reason = f"{rule}: Value 5 wei; the maximum of a transaction is 4 wei."
    price = (
        "Its gas_price must not be above 1000 gwei, the maximum of automatic prices: the relayer or the "
        "token has spending rules."
    )
    failed = [("failed", None, reason), ("failed", None, price)]
    assert [state(each) for each in (rows[0], high, rows[1])] == [*failed, ("submitted", 0, "")]
    assert not rows[0].attempts.exists()


@pytest.mark.django_db
def test_a_requested_price_that_rules_no_longer_allow_is_not_signed(relayer: Relayer, lane: Lane) -> None:
    row = request(lane)
    take_turn(lane)
    fees = {"max_fee_per_gas": 9_000 * GWEI, "max_priority_fee_per_gas": 9_000 * GWEI}
    actions.speed_up(row.pk, fees, by="a client")
    limit_relayer(relayer, max_value="5")
    take_turn(lane)
    reason = (
        "Its price is not raised. Its max_priority_fee_per_gas must not be above 1000 gwei, the maximum of "
        "automatic prices: the relayer or the token has spending rules."
    )
    assert (state(row), row.attempts.count()) == (("submitted", 0, reason), 1)
    # Without rules it is raised.
    limit_relayer(relayer)
    take_turn(lane)
    row.refresh_from_db()
    assert row.attempts.count() == 2


@pytest.mark.django_db
def test_a_row_over_the_limit_of_gas_waits_until_the_window_allows_it(
    relayer: Relayer, lane: Lane, local_chain: LocalChain
) -> None:
    take_turn(lane)
    probe = request(lane)
    take_turn(lane)
    probe.refresh_from_db()
    assert probe.last_attempt is not None
    cost = int(probe.last_attempt.max_cost_text) - probe.value
    local_chain.mine(1)
    look([lane])
    chosen = limit_relayer(relayer, max_gas_cost_per_day=str(cost * 3 // 2))

    rows = [request(lane), request(lane)]
    take_turn(lane)

    first, second = (state(each) for each in rows)
    assert (first[:2], second[:2]) == (("submitted", 1), ("pending", None))
    assert second[2].startswith("Waiting for the spending rule max_gas_cost_per_day of the relayer: Gas cost of at ")
    # What "Needs attention" finds it by.
    assert Transaction.objects.filter(IS_OVER_LIMIT).get() == rows[1]
    local_chain.mine(1)
    look([lane])
    # The real cost is below the ceiling, and leaves room for the other.
    rows[0].refresh_from_db()
    assert used(chosen, "gas") == 21_000 * int(rows[0].effective_gas_price_text)
    let_time_pass(120)
    lane.refresh_from_db()
    claimed = leasing.claim(lane.pk)
    assert claimed is not None
    take_turn(claimed)
    assert state(rows[1])[:2] == ("submitted", 2)


def test_a_bump_stops_at_the_limit_of_gas() -> None:
    def review(budget: GasBudget | None) -> Bump | None:
        flying = [attempt(20 * GWEI, 2 * GWEI, seconds_ago=600)]
        limits = Mock(spec=Budget, **{"gas_budget.return_value": budget})
        return review_price(context(base_fee=40 * GWEI, budget=limits), row(nonce=0), flying, 10**24)

    free = review(None)
    assert free is not None
    assert free.prices is not None
    # With a no-op that outbids it.
    exact = ((free.prices.limit or 0) + 1 - 20 * GWEI) * 21_000 * 9 // 8
    assert review(GasBudget(exact, "the relayer's max_gas_cost_per_day")) == free
    assert review(GasBudget(exact - 1, "the relayer's max_gas_cost_per_day")) != free
    bump = review(GasBudget(21_000 * GWEI, "the relayer's max_gas_cost_per_day"))
    assert bump is not None
    assert (bump.prices, bump.ceiling) == (None, "spending")
    assert bump.reason == (
        "Its price of 20 gwei is not raised, because of the relayer's max_gas_cost_per_day, of which "
        "21000000000000 wei are left in 24 hours."
    )


def test_an_unknown_gas_of_a_no_op_neither_fails_nor_expires_a_row() -> None:
    enough = GasBudget(10**30, "the relayer's max_gas_cost_per_day")
    budget = Mock(spec=Budget, **{"refusal.return_value": "", "gas_budget.return_value": enough})
    unknown = context(base_fee=40 * GWEI, noop_gas=10**12, budget=budget)
    (decision,) = planning.plan(unknown, [row()], account())
    assert isinstance(decision, Wait)
    assert decision.reason == "The gas of a no-op is unknown."
    last = attempt(20 * GWEI, 2 * GWEI, seconds_ago=600)
    bump = review_price(unknown, row(nonce=0), [last], 10**24)
    assert bump is not None
    assert bump.reason.endswith("because of the relayer's max_gas_cost_per_day: the gas of a no-op is unknown.")
    assert blocking_reason(row(nonce=0), last, bump, True, NOW - timedelta(hours=1), NOW) == ""


@pytest.mark.django_db
def test_a_price_is_not_raised_if_too_little_was_reserved_for_a_no_op(relayer: Relayer, lane: Lane) -> None:
    """Earlier releases reserved what the transaction costs alone."""
    limit_relayer(relayer, max_gas_cost_per_day=str(10**18))
    sent = request(lane)
    take_turn(lane)
    last = Transaction.objects.select_related("last_attempt").get(pk=sent.pk).last_attempt
    assert last is not None
    cost = int(last.max_cost_text) - 1
    Charge.objects.update(amount_text=str(cost), reserved_text=str(cost))
    SpendingLimit.objects.update(hours={str(OPEN_HOUR): str(cost)})
    limit_relayer(relayer, max_gas_cost_per_day=str(cost * 6 // 5))
    prices = {"max_fee_per_gas": last.max_fee_text, "max_priority_fee_per_gas": last.max_priority_fee_text}
    actions.speed_up(sent.pk, {name: bumped(int(text)) for name, text in prices.items()}, by="a client")
    take_turn(lane)
    assert state(sent) == ("submitted", 0, "Its price is not raised, because of the relayer's max_gas_cost_per_day.")
    assert sent.attempts.count() == 1


LOW_FEES = {"pricing": "eip1559", "speed": "", "max_fee_text": str(GWEI), "max_priority_fee_text": "0"}


@pytest.mark.django_db
@pytest.mark.parametrize("columns", [{}, LOW_FEES], ids=["speed", "explicit"])
@pytest.mark.parametrize("speeds_up", [False, True])
def test_canceling_does_not_exceed_the_limit_of_gas(
    relayer: Relayer, lane: Lane, columns: dict[str, str], speeds_up: bool
) -> None:
    limit = 2 * 10**14
    chosen = limit_relayer(relayer, max_gas_cost_per_day=str(limit))
    rows = [factories.transaction(lane, to=RECEIVER, **columns) for _ in range(12)]
    take_turn(lane)
    flying = Transaction.objects.filter(nonce__isnull=False)
    assert 0 < flying.count() < len(rows)
    for _ in range(4 * speeds_up):
        for each in flying.filter(requested_action=""):
            actions.speed_up(each.pk, {"speed": "fastest"}, by="a client")
        take_turn(lane)
    before = used(chosen, "gas")
    for each in rows:
        actions.cancel(each.pk, by="a client")
    take_turn(lane)
    newest = [sent.last_attempt for sent in flying.select_related("last_attempt")]
    assert {last.purpose for last in newest if last} == {"cancel"}
    # Counted before it was signed.
    assert sum(int(last.max_cost_text) for last in newest if last) <= before == used(chosen, "gas") <= limit


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", ["accepted", "planned", "signed", "before_commit", "committed", "outcomes_written"])
def test_a_kill_at_any_step_leaves_the_sums_of_the_charges(lab: Lab, step: str) -> None:
    """The oracle compares them, too, in `contradictions`."""
    chosen = limit_relayer(lab.sender.relayer, max_value_per_day="100", max_gas_cost_per_day=str(10**18))
    own = policy(max_gas_cost_per_day=str(10**18))
    if step == "accepted":
        with at_step(step, kill), suppress(Killed):
            lab.send("first", key="first")
        assert (used(chosen), Charge.objects.count()) == (0, 0)
    lab.send("first", key="first")
    Transaction.objects.update(token_spending=own)
    lab.send("second")
    if step != "accepted":
        lab.turn_killed_at(step)
        assert used(chosen, "gas") == used(own, "gas") * 2 or used(own, "gas") == 0
    lab.finish()
    rows = list(Transaction.objects.order_by("sequence"))
    costs = [(each.gas_used or 0) * int(each.effective_gas_price_text) for each in rows]
    assert (used(chosen, "gas"), used(own, "gas")) == (sum(costs), costs[0])
