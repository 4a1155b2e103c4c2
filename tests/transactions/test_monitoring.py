"""Attempts in flight: when they are broadcast again, when and how far their price is raised, and no-ops."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from chain.broadcast.send_texts import Outcome
from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fees.gas_estimate import GasEstimate
from chain.transactions import Prices
from tests.transactions.lane_values import (
    BASE_FEE,
    GWEI,
    NOW,
    TIP,
    attempt,
    found,
    head,
    legacy_attempt,
    network,
    row,
)
from transactions.lanes.prices import monitoring, pricing
from transactions.lanes.prices.monitoring import Bump
from transactions.limits.budgets import GasBudget
from transactions.models import Attempt, Transaction

NONCE = 7
FULL_PRICE = Prices(max_fee=16_018_066_407 + TIP, max_priority_fee=TIP)
# Three blocks of mainnet, and three times as long.
PATIENCE, LONG_PATIENCE = 36, 108


def review(*attempts: Attempt, policies: dict[str, Any] | None = None, **changes: Any) -> Bump | None:
    """Review the price of a row in flight, the next one to be mined, unless it is changed."""
    values = {"network": network(), "row": row(nonce=NONCE), "found": {}, "spendable": 10**18, **changes}
    market = {"count": NONCE, **(values["found"] or found())}
    return monitoring.review_price(
        values["network"], policies or {}, values["row"], attempts, market, values["spendable"], NOW
    )


def test_a_price_below_the_base_fee_is_raised_after_half_the_time() -> None:
    assert review(attempt(9 * GWEI, TIP, seconds_ago=18)) == Bump(Prices(None, FULL_PRICE.max_fee, TIP * 9 // 8))
    assert review(attempt(9 * GWEI, TIP, seconds_ago=17.9)) is None


def test_a_tip_far_below_the_market_is_raised_after_the_whole_time() -> None:
    low = TIP * 10 // 11 - 1
    assert review(attempt(20 * GWEI, low, seconds_ago=36)) == Bump(Prices(None, 22_500_000_000, pricing.bumped(low)))
    assert review(attempt(20 * GWEI, low, seconds_ago=35.9)) is None
    assert review(attempt(20 * GWEI, low + 2, seconds_ago=36)) is None


def test_a_maximum_fee_that_leaves_no_tip_is_raised() -> None:
    assert review(attempt(BASE_FEE + 1, TIP, seconds_ago=36)) == Bump(Prices(None, FULL_PRICE.max_fee, TIP * 9 // 8))


@pytest.mark.parametrize(
    ("speed", "name", "seconds"),
    [
        ("fastest", "mainnet", 24),
        ("fast", "mainnet", 36),
        ("average", "mainnet", 72),
        ("safeLow", "mainnet", 180),
        ("fastest", "optimism", 10),
        ("fast", "optimism", 15),
        ("average", "optimism", 30),
        ("safeLow", "optimism", 120),
    ],
)
def test_each_speed_has_its_patience(speed: str, name: str, seconds: int) -> None:
    given = row(nonce=NONCE, speed=speed)
    reviews = [
        review(attempt(20 * GWEI, 1, seconds_ago=each), row=given, network=network(name))
        for each in (seconds - 0.1, seconds)
    ]
    assert [each is not None and each.prices is not None for each in reviews] == [False, True]


def test_the_next_one_is_raised_after_futile_broadcasts() -> None:
    tired = attempt(20 * GWEI, TIP, seconds_ago=LONG_PATIENCE, broadcasts=4)
    assert review(tired) == Bump(Prices(None, 22_500_000_000, TIP * 9 // 8))
    assert review(attempt(20 * GWEI, TIP, seconds_ago=LONG_PATIENCE - 1, broadcasts=4)) is None
    assert review(attempt(20 * GWEI, TIP, seconds_ago=LONG_PATIENCE, broadcasts=3)) is None


def test_only_the_next_one_is_raised_after_futile_broadcasts() -> None:
    tired = attempt(20 * GWEI, TIP, seconds_ago=LONG_PATIENCE, broadcasts=4)
    assert review(tired, row=row(nonce=NONCE + 1)) is None


def test_futile_broadcasts_do_not_raise_a_price_far_above_the_market() -> None:
    tired = attempt(60 * GWEI, TIP, seconds_ago=LONG_PATIENCE, broadcasts=4)
    reason = "Its price of 60 gwei is not raised, because of 5 times the market price of 12 gwei."
    assert review(tired) == Bump(None, reason, "market")


@pytest.mark.parametrize("outcome", ["underpriced", "replacement underpriced"])
def test_a_refused_price_is_raised_to_what_the_node_named(outcome: str) -> None:
    refused = attempt(20 * GWEI, TIP, seconds_ago=18, outcome=outcome, minimum_price_text=str(24 * GWEI))
    assert review(refused) == Bump(Prices(None, 24 * GWEI, TIP * 9 // 8))


def test_a_node_cannot_name_any_price() -> None:
    refused = attempt(20 * GWEI, TIP, seconds_ago=18, outcome="underpriced", minimum_price_text=str(61 * GWEI))
    reason = "Its price of 20 gwei is not raised, because of 5 times the market price of 12 gwei."
    assert review(refused) == Bump(None, reason, "market")


def test_a_legacy_price_stays_legacy() -> None:
    low = legacy_attempt(9 * GWEI, seconds_ago=PATIENCE)
    assert review(low) == Bump(Prices(gas_price=BASE_FEE + TIP))


def test_a_single_price_below_the_market_is_raised() -> None:
    policies, values = {"eip1559_pricing": False}, found(gas_price=30 * GWEI)
    assert review(legacy_attempt(27 * GWEI, seconds_ago=36), policies=policies, found=values) == Bump(
        Prices(gas_price=33 * GWEI)
    )
    assert review(legacy_attempt(28 * GWEI, seconds_ago=36), policies=policies, found=values) is None


def test_the_highest_attempt_is_outbid() -> None:
    attempts = [attempt(40 * GWEI, 1), attempt(20 * GWEI, 2, seconds_ago=PATIENCE)]
    assert review(*attempts) == Bump(Prices(None, 45 * GWEI, TIP))


def test_a_requested_price_is_not_raised() -> None:
    given = row(nonce=NONCE, pricing="eip1559", max_fee_text=str(9 * GWEI), max_priority_fee_text="1")
    assert review(attempt(9 * GWEI, 1, seconds_ago=18), row=given) == Bump(
        None,
        "Its price of 9 gwei is below the next base fee of 10 gwei. Its client set the price, which is not raised.",
        "requested",
    )


def test_a_price_is_raised_to_the_cap_and_no_further() -> None:
    policies = {"gas_price_cap": 11 * GWEI}
    assert review(attempt(9 * GWEI, 1, seconds_ago=18), policies=policies) == Bump(Prices(None, 11 * GWEI, TIP))
    assert review(attempt(9_900_000_000, 1, seconds_ago=18), policies=policies) == Bump(
        None,
        "Its price of 9.9 gwei is not raised, because of the relayer's gas_price_cap of 11 gwei.",
        "gas_price_cap",
    )


def test_the_maximum_of_the_network_stops_a_bump() -> None:
    assert review(attempt(9_900_000_000, 1, seconds_ago=18), network=network(max_gas_price=11 * GWEI)) == Bump(
        None, "Its price of 9.9 gwei is not raised, because of the maximum on mainnet of 11 gwei.", "network"
    )


def test_the_balance_stops_a_bump() -> None:
    low = attempt(8 * GWEI, 1, seconds_ago=18)
    assert review(low, spendable=21_000 * GWEI) == Bump(Prices(None, 9 * GWEI, TIP))
    assert review(low, spendable=21_000 * GWEI - 1) == Bump(
        None, "Its price of 8 gwei is not raised, because of the balance, which covers 8.999999999 gwei.", "balance"
    )


def test_an_attempt_from_before_the_market_fell_can_be_replaced() -> None:
    # 500 gwei are far above five times the market, but two bumps over the last attempt are allowed.
    assert review(attempt(500 * GWEI, 1, seconds_ago=36)) == Bump(Prices(None, 562_500_000_000, TIP))


@pytest.mark.parametrize("purpose", ["expire", "close", "gap"])
def test_a_no_op_may_exceed_the_cap_by_two_bumps(purpose: str) -> None:
    policies, given = {"gas_price_cap": 8 * GWEI}, row(nonce=NONCE, pricing="legacy", gas_price_text="1")
    one = attempt(9 * GWEI, 1, seconds_ago=18, purpose=purpose)
    assert review(one, policies=policies, row=given) == Bump(Prices(None, 10_125_000_000, TIP))
    two = review(attempt(10_125_000_000, 1, seconds_ago=36, purpose=purpose), policies=policies, row=given)
    assert two is not None
    assert (two.prices, two.ceiling) == (None, "gas_price_cap")


def test_nothing_is_raised_while_the_market_is_unknown() -> None:
    values = found(history=InsufficientData("No fees."))
    assert review(attempt(1, 1, seconds_ago=1_000), found=values) is None


def test_an_attempt_found_on_the_chain_is_not_raised() -> None:
    assert review(attempt(max_fee_text="", max_priority_fee_text="", seconds_ago=1_000)) is None


@given(
    old=st.tuples(st.integers(0, 10**13), st.integers(0, 10**13)).map(sorted),
    base_fee=st.integers(0, 10**13),
    tip=st.integers(0, 10**12),
    cap=st.one_of(st.none(), st.integers(1, 10**13)),
    spendable=st.integers(-(10**17), 10**19),
    minimum=st.one_of(st.none(), st.integers(0, 10**14)),
    is_noop=st.booleans(),
)
def test_every_bump_replaces_and_none_exceeds_a_ceiling(
    old: list[int], base_fee: int, tip: int, cap: int | None, spendable: int, minimum: int | None, is_noop: bool
) -> None:
    last = attempt(
        old[1],
        old[0],
        seconds_ago=10_000,
        broadcasts=9,
        purpose="gap" if is_noop else "send",
        minimum_price_text="" if minimum is None else str(minimum),
    )
    policies = {} if cap is None else {"gas_price_cap": cap}
    bump = review(last, policies=policies, found=found(base_fee, tip), spendable=spendable)
    assert bump is not None
    if bump.prices is None:
        assert bump.ceiling in {"gas_price_cap", "network", "market", "balance"}
        return
    max_fee, max_tip = bump.prices.max_fee, bump.prices.max_priority_fee
    assert max_fee is not None
    assert max_tip is not None
    assert max_fee >= max(pricing.bumped(old[1]), minimum or 0)
    assert max_fee >= max_tip >= min(pricing.bumped(old[0]), max_fee)
    ceiling = network().max_gas_price if cap is None else cap
    assert max_fee <= (pricing.bumped(pricing.bumped(ceiling)) if is_noop else ceiling)
    assert pricing.cost_after(last, bump.prices) - int(last.max_cost_text) <= spendable


def noop(*attempts: Attempt, policies: dict[str, Any] | None = None, name: str = "mainnet", **changes: Any) -> Any:
    return monitoring.price_noop(network(name), policies or {}, attempts, found(**changes))


def test_a_no_op_for_an_unused_nonce_pays_the_market() -> None:
    assert noop(noop_gas=GasEstimate(21_000)) == (21_000, FULL_PRICE)


def test_a_no_op_outbids_every_attempt() -> None:
    attempts = [attempt(100 * GWEI, 1), attempt(40 * GWEI, 8 * GWEI)]
    assert noop(*attempts, noop_gas=GasEstimate(21_000)) == (21_000, Prices(None, 112_500_000_000, 9 * GWEI))


def test_a_no_op_outbids_what_was_sent_above_a_cap_that_was_lowered() -> None:
    prices = noop(attempt(100 * GWEI, GWEI), policies={"gas_price_cap": GWEI})[1]
    assert prices == Prices(None, 112_500_000_000, 1_265_625_000)


def test_a_no_op_exceeds_the_cap_by_two_bumps_at_most_unless_it_must() -> None:
    assert noop(attempt(8 * GWEI, 1), policies={"gas_price_cap": 8 * GWEI})[1] == Prices(None, 10_125_000_000, TIP)
    assert noop(policies={"gas_price_cap": 8 * GWEI})[1] == Prices(None, 10_125_000_000, TIP)


def test_a_no_op_replaces_a_legacy_attempt_with_a_legacy_price() -> None:
    assert noop(legacy_attempt(8 * GWEI))[1] == Prices(gas_price=BASE_FEE + TIP)


def test_a_no_op_without_attempts_follows_the_policy() -> None:
    assert noop(policies={"eip1559_pricing": False}, gas_price=20 * GWEI)[1] == Prices(gas_price=22 * GWEI)


def test_a_no_op_uses_the_estimate_as_a_delegated_account_runs_code() -> None:
    assert noop(noop_gas=GasEstimate(30_000))[0] == 33_000


@pytest.mark.parametrize("fault", [InsufficientData("No gas."), ExecutionReverted("It would revert.")])
def test_a_no_op_without_an_estimate_needs_the_gas_of_a_transfer(fault: ChainFault) -> None:
    assert noop(noop_gas=fault)[0] == 21_000
    assert noop()[0] == 21_000


@pytest.mark.parametrize("name", ["arbitrum-one", "zksync-era"])
def test_where_gas_has_a_surcharge_a_no_op_needs_its_estimate(name: str) -> None:
    with pytest.raises(InsufficientData):
        noop(name=name, noop_gas=InsufficientData("No gas."))
    with pytest.raises(InsufficientData):
        noop(name=name)


def test_a_no_op_without_a_market_outbids_what_it_replaces() -> None:
    unknown = InsufficientData("No fees.")
    assert noop(attempt(8 * GWEI, 16), history=unknown)[1] == Prices(None, 9 * GWEI, 18)
    with pytest.raises(InsufficientData):
        noop(history=unknown)


LOW: dict[str, Any] = {"pricing": "eip1559", "max_fee_text": str(9 * GWEI), "max_priority_fee_text": "1"}


def blocking(
    given: Transaction,
    minutes: float = 10,
    others: bool = True,
    last: Attempt | None = None,
    budget: GasBudget | None = None,
) -> str:
    since = NOW - timedelta(minutes=minutes)
    newest = last or attempt(9 * GWEI, 1, seconds_ago=600)
    bump = monitoring.review_price(network(), {}, given, [newest], found(), 10**18, NOW, budget)
    return monitoring.blocking_reason(given, newest, bump, others, since, NOW)


def test_a_requested_price_that_holds_up_others_is_given_up_after_ten_minutes() -> None:
    assert blocking(row(nonce=NONCE, **LOW)) == (
        "Its price of 9 gwei is below the next base fee of 10 gwei. Its client set the price, which is not raised. It "
        "has held up other transactions for 10 minutes."
    )


def test_a_requested_price_that_nodes_refuse_is_given_up_too() -> None:
    refused = attempt(20 * GWEI, 1, seconds_ago=600, outcome=Outcome.UNDERPRICED)
    fees: dict[str, Any] = {"pricing": "eip1559", "max_fee_text": str(20 * GWEI), "max_priority_fee_text": "1"}
    reason = blocking(row(nonce=NONCE, **fees), last=refused)
    assert reason.startswith("A node refused its price of 20 gwei as too low.")


def test_a_requested_price_below_the_market_is_given_up_after_half_an_hour() -> None:
    outbid = attempt(20 * GWEI, 0, seconds_ago=1800)
    given = row(nonce=NONCE, pricing="eip1559", max_fee_text=str(20 * GWEI), max_priority_fee_text="0")
    assert blocking(given, 29.99, last=outbid) == ""
    assert blocking(given, 30, last=outbid) == (
        "It pays blocks less than the market, whose price is 12 gwei. Its client set the price, which is not raised. "
        "It has held up other transactions for 30 minutes."
    )
    # At the price of the market, something else keeps it from being mined.
    enough = attempt(24 * GWEI, TIP, seconds_ago=1800, broadcasts=9)
    assert blocking(given, 60, last=enough) == ""


def test_a_spending_limit_that_keeps_a_price_too_low_does_not_block_others() -> None:
    used_up = GasBudget(0, "the token's max_gas_cost_per_day")
    assert blocking(row(nonce=NONCE), budget=used_up) == (
        "Its price of 9 gwei is not raised, because of the token's max_gas_cost_per_day, of which 0 wei are left in "
        "24 hours. It has held up other transactions for 10 minutes."
    )


def test_a_replacement_that_is_not_signed_for_ten_minutes_is_given_up() -> None:
    waiting = row(nonce=NONCE, requested_action="replace", due_at=NOW - timedelta(minutes=10))
    assert blocking(waiting) == "Its replacement could not be signed for 10 minutes, and holds up others."


@pytest.mark.parametrize(
    ("changes", "of_call"),
    [
        ({}, {"minutes": 9.99}),
        ({}, {"others": False}),
        ({}, {"last": attempt(purpose="expire")}),
        ({"requested_action": "expire"}, {}),
        ({}, {"last": attempt(BASE_FEE, 1, seconds_ago=600)}),
        ({"pricing": "speed"}, {}),
        ({"requested_action": "replace", "due_at": NOW - timedelta(minutes=9.99)}, {"minutes": 20}),
        ({"requested_action": "replace", "due_at": NOW - timedelta(minutes=20)}, {"minutes": 9.99}),
    ],
    ids=["not long", "alone", "replaced", "requested already", "minable", "no price", "new", "not long next"],
)
def test_others_are_not_given_up(changes: dict[str, Any], of_call: dict[str, Any]) -> None:
    assert blocking(row(nonce=NONCE, **{**LOW, **changes}), **of_call) == ""


def test_a_multiple_of_the_market_is_a_setting(settings: Settings) -> None:
    settings.FEE_CEILING_MULTIPLE = 2
    tired = attempt(24 * GWEI, TIP, seconds_ago=LONG_PATIENCE, broadcasts=4)
    bump = review(tired, found={**found(), "head": head(BASE_FEE)})
    assert bump == Bump(
        None, "Its price of 24 gwei is not raised, because of 2 times the market price of 12 gwei.", "market"
    )


def test_a_minimum_that_a_node_names_raises_no_noop_far_above_the_cap() -> None:
    """A node that lies must not burn funds."""
    policies = {"gas_price_cap": 2 * GWEI}
    old = legacy_attempt(GWEI, outcome="replacement underpriced", minimum_price_text=str(40_000 * GWEI))
    _, prices = noop(old, policies=policies)
    assert prices == Prices(gas_price=pricing.bumped(pricing.bumped(2 * GWEI)))


def requested(*attempts: Attempt, policies: dict[str, Any] | None = None, **changes: Any) -> Bump | None:
    """Return the price that was requested for a row in flight."""
    values = {"row": row(nonce=NONCE), "found": found(), "spendable": None, **changes}
    return monitoring.requested_price(
        network(), policies or {}, values["row"], attempts, values["found"], values["spendable"]
    )


def test_a_requested_price_is_the_market_and_at_least_one_bump() -> None:
    assert requested(attempt(9 * GWEI, 1)) == Bump(FULL_PRICE)
    assert requested(attempt(24 * GWEI, 4 * GWEI)) == Bump(Prices(None, 27 * GWEI, 4_500_000_000))
    # The highest of all attempts, and what a node named.
    refused = attempt(16 * GWEI, GWEI, minimum_price_text=str(30 * GWEI))
    assert requested(attempt(24 * GWEI, 4 * GWEI), refused) == Bump(Prices(None, 30 * GWEI, 4_500_000_000))
    assert requested(legacy_attempt(24 * GWEI)) == Bump(Prices(27 * GWEI))


def test_an_explicit_price_that_was_requested_is_exact() -> None:
    explicit = row(nonce=NONCE, pricing="eip1559", speed="", max_fee_text="10", max_priority_fee_text="3")
    # Even below the market, and where it is unknown.
    assert requested(attempt(8, 2), row=explicit, found={}) == Bump(Prices(None, 10, 3))
    stopped = requested(attempt(8, 2), row=explicit, policies={"gas_price_cap": 9})
    assert stopped is not None
    assert (stopped.prices, stopped.ceiling) == (None, "gas_price_cap")


@pytest.mark.parametrize(
    ("policies", "spendable", "ceiling"),
    [({"gas_price_cap": 26 * GWEI}, None, "gas_price_cap"), ({}, 21_000 * 3 * GWEI - 1, "balance")],
)
def test_a_requested_price_stops_at_a_ceiling(policies: Any, spendable: int | None, ceiling: str) -> None:
    stopped = requested(attempt(24 * GWEI, 4 * GWEI), policies=policies, spendable=spendable)
    assert stopped is not None
    assert (stopped.prices, stopped.ceiling) == (None, ceiling)


def test_requests_do_not_lead_step_by_step_above_the_multiple_of_the_market() -> None:
    speed_up = row(nonce=NONCE, requested_action="speed_up")
    assert requested(attempt(200 * GWEI, 4 * GWEI)) == Bump(Prices(None, 225 * GWEI, 4_500_000_000))
    stopped = requested(attempt(200 * GWEI, 4 * GWEI), row=speed_up)
    assert stopped is not None
    assert (stopped.prices, stopped.ceiling) == (None, "market")


def test_a_requested_price_waits_for_the_market() -> None:
    assert requested(attempt(), found={"head": InsufficientData("none"), "history": InsufficientData("none")}) is None
