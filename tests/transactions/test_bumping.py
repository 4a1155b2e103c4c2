"""Attempts in flight: when they are broadcast again, when and how far their price is raised, and no-ops."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from chain.broadcast.send_texts import Outcome
from chain.errors import ExecutionReverted, InsufficientData
from chain.transactions import Prices
from tests.transactions.lane_values import (
    BASE_FEE,
    GWEI,
    NOW,
    TIP,
    attempt,
    context,
    legacy_attempt,
    network,
    row,
    sender_of,
)
from transactions.lanes.prices import bumping, pricing
from transactions.lanes.prices.bumping import Bump
from transactions.limits.budgets import Budget, GasBudget
from transactions.models import Attempt, Transaction

NONCE = 7
FULL_FEE = 16_018_066_407 + TIP
FULL_PRICE = Prices(max_fee=FULL_FEE, max_priority_fee=TIP)
# Three blocks of mainnet, and three times as long.
PATIENCE, LONG_PATIENCE = 36, 108


def review(*attempts: Attempt, policies: dict[str, Any] | None = None, **changes: Any) -> Bump | None:
    """Review the price of a row in flight, the next one to be mined, unless it is changed."""
    given = {name: changes.pop(name) for name in ("network", "row", "spendable") if name in changes}
    turn = context(sender_of(given.get("network"), policies), count=NONCE, **changes)
    return bumping.review_price(turn, given.get("row") or row(nonce=NONCE), attempts, given.get("spendable", 10**18))


SET_BY_CLIENT = "Its client set the price, which is not raised."
SINGLE: dict[str, Any] = {"policies": {"eip1559_pricing": False}, "gas_price": 30 * GWEI}
CAP, LOW = {"gas_price_cap": 11 * GWEI}, TIP * 10 // 11 - 1
NOOP_CAP = {"gas_price_cap": 8 * GWEI}
OWN_PRICE: dict[str, Any] = {"pricing": "eip1559", "max_fee_text": str(9 * GWEI), "max_priority_fee_text": "1"}


def fee(max_fee: int, tip: int = TIP) -> Bump:
    return Bump(Prices(None, max_fee, tip))


def stopped(price: str, by: str, ceiling: str) -> Bump:
    return Bump(None, f"Its price of {price} gwei is not raised, because of {by}.", ceiling)


def tired(max_fee: int, seconds_ago: float = LONG_PATIENCE, broadcasts: int = 4) -> Attempt:
    return attempt(max_fee, TIP, seconds_ago=seconds_ago, broadcasts=broadcasts)


@pytest.mark.parametrize(
    ("last", "changes", "expected"),
    [
        # Below the base fee: after half the time.
        (attempt(9 * GWEI, TIP, seconds_ago=18), {}, fee(FULL_FEE, TIP * 9 // 8)),
        (attempt(9 * GWEI, TIP, seconds_ago=17.9), {}, None),
        # A tip far below the market, or a maximum fee that leaves none: after the whole time.
        (attempt(20 * GWEI, LOW, seconds_ago=36), {}, fee(22_500_000_000, pricing.bumped(LOW))),
        (attempt(20 * GWEI, LOW, seconds_ago=35.9), {}, None),
        (attempt(20 * GWEI, LOW + 2, seconds_ago=36), {}, None),
        (attempt(BASE_FEE + 1, TIP, seconds_ago=36), {}, fee(FULL_FEE, TIP * 9 // 8)),
        # After futile broadcasts, the next one to be mined alone, and not far above the market.
        (tired(20 * GWEI), {}, fee(22_500_000_000, TIP * 9 // 8)),
        (tired(20 * GWEI, LONG_PATIENCE - 1), {}, None),
        (tired(20 * GWEI, broadcasts=3), {}, None),
        (tired(20 * GWEI), {"row": row(nonce=NONCE + 1)}, None),
        (tired(60 * GWEI), {}, stopped("60", "5 times the market price of 12 gwei", "market")),
        # Single prices.
        (legacy_attempt(9 * GWEI, seconds_ago=PATIENCE), {}, Bump(Prices(gas_price=BASE_FEE + TIP))),
        (legacy_attempt(27 * GWEI, seconds_ago=36), SINGLE, Bump(Prices(gas_price=33 * GWEI))),
        (legacy_attempt(28 * GWEI, seconds_ago=36), SINGLE, None),
        # What a client has set is not raised.
        (
            attempt(9 * GWEI, 1, seconds_ago=18),
            {"row": row(nonce=NONCE, **OWN_PRICE)},
            Bump(None, f"Its price of 9 gwei is below the next base fee of 10 gwei. {SET_BY_CLIENT}", "requested"),
        ),
        # To a ceiling, and no further.
        (attempt(9 * GWEI, 1, seconds_ago=18), {"policies": CAP}, fee(11 * GWEI)),
        (
            attempt(9_900_000_000, 1, seconds_ago=18),
            {"policies": CAP},
            stopped("9.9", "the relayer's gas_price_cap of 11 gwei", "gas_price_cap"),
        ),
        (
            attempt(9_900_000_000, 1, seconds_ago=18),
            {"network": network(max_gas_price=11 * GWEI)},
            stopped("9.9", "the maximum on mainnet of 11 gwei", "network"),
        ),
        (attempt(8 * GWEI, 1, seconds_ago=18), {"spendable": 21_000 * GWEI}, fee(9 * GWEI)),
        (
            attempt(8 * GWEI, 1, seconds_ago=18),
            {"spendable": 21_000 * GWEI - 1},
            stopped("8", "the balance, which covers 8.999999999 gwei", "balance"),
        ),
        # 500 gwei are far above five times the market, but two bumps over the last attempt are allowed.
        (attempt(500 * GWEI, 1, seconds_ago=36), {}, fee(562_500_000_000)),
        # While the market is unknown, and an attempt that was found on the chain.
        (attempt(1, 1, seconds_ago=1_000), {"history": InsufficientData("No fees.")}, None),
        (attempt(max_fee_text="", max_priority_fee_text="", seconds_ago=1_000), {}, None),
    ],
)
def test_when_and_how_far_a_price_is_raised(last: Attempt, changes: dict[str, Any], expected: Bump | None) -> None:
    assert review(last, **changes) == expected


@pytest.mark.parametrize(
    ("speed", "name", "seconds"),
    [
        ("fastest", "mainnet", 24),
        ("fast", "mainnet", 36),
        ("average", "mainnet", 72),
        ("safeLow", "mainnet", 180),
        ("fastest", "optimism", 10),
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


@pytest.mark.parametrize("outcome", ["underpriced", "replacement underpriced"])
def test_a_refused_price_is_raised_to_what_the_node_named_but_not_to_any_price(outcome: str) -> None:
    refused = attempt(20 * GWEI, TIP, seconds_ago=18, outcome=outcome, minimum_price_text=str(24 * GWEI))
    assert review(refused) == fee(24 * GWEI, TIP * 9 // 8)
    refused.minimum_price_text = str(61 * GWEI)
    assert review(refused) == stopped("20", "5 times the market price of 12 gwei", "market")


def test_a_bump_outbids_every_attempt() -> None:
    attempts = [attempt(40 * GWEI, 1), attempt(20 * GWEI, 2, seconds_ago=PATIENCE)]
    assert review(*attempts) == fee(45 * GWEI)


def test_a_multiple_of_the_market_is_a_setting(settings: Settings) -> None:
    settings.FEE_CEILING_MULTIPLE = 2
    assert review(tired(24 * GWEI)) == stopped("24", "2 times the market price of 12 gwei", "market")


@pytest.mark.parametrize("purpose", ["expire", "close", "gap"])
def test_a_no_op_may_exceed_the_cap_by_two_bumps(purpose: str) -> None:
    given = row(nonce=NONCE, pricing="legacy", gas_price_text="1")
    one = attempt(9 * GWEI, 1, seconds_ago=18, purpose=purpose)
    assert review(one, policies=NOOP_CAP, row=given) == fee(10_125_000_000)
    two = review(attempt(10_125_000_000, 1, seconds_ago=36, purpose=purpose), policies=NOOP_CAP, row=given)
    assert two is not None
    assert (two.prices, two.ceiling) == (None, "gas_price_cap")


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
    bump = review(last, policies=policies, base_fee=base_fee, tip=tip, spendable=spendable)
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


def noop(
    *attempts: Attempt,
    policies: dict[str, Any] | None = None,
    name: str = "mainnet",
    chosen: int | None = None,
    **changes: Any,
) -> Any:
    return bumping.price_noop(context(sender_of(network(name), policies), **changes), attempts, chosen=chosen)


@pytest.mark.parametrize(
    ("attempts", "changes", "prices"),
    [
        # Without attempts, the market, or what the policy has.
        ([], {}, FULL_PRICE),
        ([], {"policies": {"eip1559_pricing": False}, "gas_price": 20 * GWEI}, Prices(gas_price=22 * GWEI)),
        # It outbids every attempt, also what was sent above a cap that was lowered.
        ([attempt(100 * GWEI, 1), attempt(40 * GWEI, 8 * GWEI)], {}, Prices(None, 112_500_000_000, 9 * GWEI)),
        (
            [attempt(100 * GWEI, GWEI)],
            {"policies": {"gas_price_cap": GWEI}},
            Prices(None, 112_500_000_000, 1_265_625_000),
        ),
        ([legacy_attempt(8 * GWEI)], {}, Prices(gas_price=BASE_FEE + TIP)),
        # It exceeds the cap by two bumps at most, unless it must.
        ([attempt(8 * GWEI, 1)], {"policies": NOOP_CAP}, Prices(None, 10_125_000_000, TIP)),
        ([], {"policies": NOOP_CAP}, Prices(None, 10_125_000_000, TIP)),
        # A node that lies about its minimum must not burn funds.
        (
            [legacy_attempt(GWEI, outcome="replacement underpriced", minimum_price_text=str(40_000 * GWEI))],
            {"policies": {"gas_price_cap": 2 * GWEI}},
            Prices(gas_price=pricing.bumped(pricing.bumped(2 * GWEI))),
        ),
        # Without a market.
        ([attempt(8 * GWEI, 16)], {"history": InsufficientData("No fees.")}, Prices(None, 9 * GWEI, 18)),
    ],
)
def test_a_no_op_has_a_price_that_replaces(attempts: list[Attempt], changes: dict[str, Any], prices: Prices) -> None:
    assert noop(*attempts, noop_gas=21_000, **changes) == (21_000, prices)


@pytest.mark.parametrize(
    ("old", "chosen", "prices"),
    [
        (attempt(8 * GWEI, 1), 30 * GWEI, Prices(None, 30 * GWEI, TIP)),
        (legacy_attempt(8 * GWEI), 30 * GWEI, Prices(gas_price=30 * GWEI)),
        # What no longer replaces the attempt, as it was raised meanwhile, or is far above the cap.
        (attempt(80 * GWEI, 8 * GWEI), 30 * GWEI, Prices(None, 90 * GWEI, 9 * GWEI)),
        (attempt(8 * GWEI, 1), 10**30, Prices(None, 126_562_500_000, TIP)),
    ],
)
def test_a_no_op_has_the_price_that_staff_chose_if_it_replaces(old: Attempt, chosen: int, prices: Prices) -> None:
    policies = {"gas_price_cap": 100 * GWEI}
    assert noop(old, policies=policies, noop_gas=21_000, chosen=chosen) == (21_000, prices)
    # Without a market, its tip is the minimum.
    _, found = noop(old, policies=policies, noop_gas=21_000, chosen=chosen, history=InsufficientData("No fees."))
    assert found.limit == prices.limit


@pytest.mark.parametrize(
    ("changes", "gas"),
    [
        # A delegated account runs code.
        ({"noop_gas": 30_000}, 33_000),
        ({"noop_gas": InsufficientData("No gas.")}, 21_000),
        ({"noop_gas": ExecutionReverted("It would revert.")}, 21_000),
        ({}, 21_000),
    ],
)
def test_a_no_op_without_an_estimate_needs_the_gas_of_a_transfer(changes: dict[str, Any], gas: int) -> None:
    assert noop(**changes)[0] == gas


@pytest.mark.parametrize(
    "changes",
    [
        # Where gas has a surcharge, it needs its estimate.
        {"name": "arbitrum-one", "noop_gas": InsufficientData("No gas.")},
        {"name": "zksync-era"},
        {"history": InsufficientData("No fees.")},
    ],
)
def test_a_no_op_waits_for_what_its_price_needs(changes: dict[str, Any]) -> None:
    with pytest.raises(InsufficientData):
        noop(**changes)


def blocking(
    given: Transaction,
    minutes: float = 10,
    others: bool = True,
    last: Attempt | None = None,
    left: GasBudget | None = None,
) -> str:
    since = NOW - timedelta(minutes=minutes)
    newest = last or attempt(9 * GWEI, 1, seconds_ago=600)
    turn = context(budget=Mock(spec=Budget, **{"gas_budget.return_value": left}), count=NONCE)
    bump = bumping.review_price(turn, given, [newest], 10**18)
    return bumping.blocking_reason(given, newest, bump, others, since, NOW)


HELD_UP = "It has held up other transactions for {} minutes."
AT_20 = OWN_PRICE | {"max_fee_text": str(20 * GWEI)}
OUTBID = attempt(20 * GWEI, 0, seconds_ago=1800)
UNSIGNED: dict[str, Any] = {"requested_action": "replace", "due_at": NOW - timedelta(minutes=10)}


@pytest.mark.parametrize(
    ("changes", "of_call", "reason"),
    [
        (
            OWN_PRICE,
            {},
            f"Its price of 9 gwei is below the next base fee of 10 gwei. {SET_BY_CLIENT} {HELD_UP.format(10)}",
        ),
        (
            AT_20,
            {"last": attempt(20 * GWEI, 1, seconds_ago=600, outcome=Outcome.UNDERPRICED)},
            f"A node refused its price of 20 gwei as too low. {SET_BY_CLIENT} {HELD_UP.format(10)}",
        ),
        # Below the market: after half an hour.
        (
            AT_20,
            {"minutes": 30, "last": OUTBID},
            f"It pays blocks less than the market, whose price is 12 gwei. {SET_BY_CLIENT} {HELD_UP.format(30)}",
        ),
        (AT_20, {"minutes": 29.99, "last": OUTBID}, ""),
        # At the price of the market, something else keeps it from being mined.
        (AT_20, {"minutes": 60, "last": attempt(24 * GWEI, TIP, seconds_ago=1800, broadcasts=9)}, ""),
        (
            {},
            {"left": GasBudget(0, "the token's limit")},
            "Its price of 9 gwei is not raised, because of the token's limit, of which 0 wei are left in 24 hours. "
            + HELD_UP.format(10),
        ),
        (UNSIGNED, {}, "Its replacement could not be signed for 10 minutes, and holds up others."),
        # Not long, alone, replaced, requested already, minable, without a price.
        (OWN_PRICE, {"minutes": 9.99}, ""),
        (OWN_PRICE, {"others": False}, ""),
        (OWN_PRICE, {"last": attempt(purpose="expire")}, ""),
        (OWN_PRICE | {"requested_action": "expire"}, {}, ""),
        (OWN_PRICE, {"last": attempt(BASE_FEE, 1, seconds_ago=600)}, ""),
        (OWN_PRICE | {"pricing": "speed"}, {}, ""),
        # Not requested for long, or not long the next one.
        (OWN_PRICE | UNSIGNED | {"due_at": NOW - timedelta(minutes=9.99)}, {"minutes": 20}, ""),
        (OWN_PRICE | UNSIGNED | {"due_at": NOW - timedelta(minutes=20)}, {"minutes": 9.99}, ""),
    ],
)
def test_what_holds_up_others_is_given_up(changes: dict[str, Any], of_call: dict[str, Any], reason: str) -> None:
    assert blocking(row(nonce=NONCE, **changes), **of_call) == reason


def requested(*attempts: Attempt, policies: dict[str, Any] | None = None, **changes: Any) -> Bump | None:
    """Return the price that was requested for a row in flight."""
    given = {name: changes.pop(name) for name in ("row", "spendable") if name in changes}
    turn = context(sender_of(policies=policies), **changes)
    return bumping.requested_price(turn, given.get("row") or row(nonce=NONCE), attempts, given.get("spendable"))


def test_a_requested_price_is_the_market_and_at_least_one_bump() -> None:
    assert requested(attempt(9 * GWEI, 1)) == Bump(FULL_PRICE)
    assert requested(attempt(24 * GWEI, 4 * GWEI)) == Bump(Prices(None, 27 * GWEI, 4_500_000_000))
    # The highest of all attempts, and what a node named.
    refused = attempt(16 * GWEI, GWEI, minimum_price_text=str(30 * GWEI))
    assert requested(attempt(24 * GWEI, 4 * GWEI), refused) == Bump(Prices(None, 30 * GWEI, 4_500_000_000))
    assert requested(legacy_attempt(24 * GWEI)) == Bump(Prices(27 * GWEI))
    # One request may exceed the multiple of the market.
    assert requested(attempt(200 * GWEI, 4 * GWEI)) == fee(225 * GWEI, 4_500_000_000)


EXPLICIT = row(nonce=NONCE, pricing="eip1559", speed="", max_fee_text="10", max_priority_fee_text="3")


def test_an_explicit_price_that_was_requested_is_exact() -> None:
    # Even below the market, and where it is unknown.
    assert requested(attempt(8, 2), row=EXPLICIT, history=InsufficientData("none")) == Bump(Prices(None, 10, 3))
    assert requested(attempt(8, 2), row=EXPLICIT, policies={"gas_price_cap": 10}) == Bump(Prices(None, 10, 3))
    assert requested(attempt(), history=InsufficientData("none")) is None


@pytest.mark.parametrize(
    ("max_fee", "changes", "ceiling"),
    [
        (8, {"row": EXPLICIT, "policies": {"gas_price_cap": 9}}, "gas_price_cap"),
        (24 * GWEI, {"policies": {"gas_price_cap": 26 * GWEI}}, "gas_price_cap"),
        (24 * GWEI, {"spendable": 21_000 * 3 * GWEI - 1}, "balance"),
        # Requests do not lead step by step above the multiple of the market.
        (200 * GWEI, {"row": row(nonce=NONCE, requested_action="speed_up")}, "market"),
    ],
)
def test_a_requested_price_stops_at_a_ceiling(max_fee: int, changes: dict[str, Any], ceiling: str) -> None:
    found = requested(attempt(max_fee, min(max_fee, 4 * GWEI)), **changes)
    assert found is not None
    assert (found.prices, found.ceiling) == (None, ceiling)
