"""Planning: which pending transactions are sent, at what gas and cost, and why others wait or fail."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import ExecutionReverted, InsufficientData, NodesUnreachable
from chain.fees.network_fees import OperatorFee
from chain.networks import networks
from chain.transactions import Prices
from tests.transactions.lane_values import (
    ADDRESS,
    BASE_FEE,
    GWEI,
    NOW,
    RECEIVER,
    TIP,
    account,
    context,
    head,
    network,
    read_all,
    row,
    sender_of,
)
from transactions.lanes.prices import planning
from transactions.lanes.prices.context import read_context
from transactions.lanes.prices.planning import Closing, Decision, MissingFunds, Send, Wait
from transactions.lanes.prices.simulation import noop_reading, row_readings
from transactions.models import Transaction
from transactions.records.states import Cause

# Four blocks of an eighth more, and the tip.
MAX_FEE = 16_018_066_407 + TIP
PRICES = Prices(max_fee=MAX_FEE, max_priority_fee=TIP)
REVERT = ExecutionReverted('The transaction would revert: "too early".', b"\x08\xc3\x79\xa0")
FUNDS = ExecutionReverted("The transaction cannot be executed: no balance.", is_unfunded=True)


def plan(*rows: Transaction, policies: dict[str, Any] | None = None, **changes: Any) -> list[Decision]:
    """Plan rows on mainnet, with what was read and the account as given or as usual."""
    sender = sender_of(changes.pop("network", None), policies, changes.pop("reserve", 0))
    of_lane = changes.pop("account", account())
    return planning.plan(context(sender, **changes), rows, of_lane)


def decide(given: Transaction, **changes: Any) -> Decision:
    (decision,) = plan(given, **changes)
    return decision


INCLUDED = "The transaction cannot be included: "


ABOVE_BLOCK = f"{INCLUDED}it needs 30000001 gas, above the maximum of 30000000 on mainnet."
REFUSED = InsufficientData("The node refused to estimate the gas of the transaction.")


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        ({}, {"network": network(tx_gas_cap=30_000), "gas": 30_001},
         f"{INCLUDED}it needs 30001 gas, above the maximum of 30000 on mainnet."),
        ({"requested_gas_limit": 30_000_001}, {"network": network(tx_gas_cap=None)}, ABOVE_BLOCK),
        # Even if it cannot be simulated.
        ({"requested_gas_limit": 30_000_001}, {"network": network(tx_gas_cap=None), "gas": REFUSED}, ABOVE_BLOCK),
        # The limit of a network may be lowered after a request was accepted.
        ({"data": bytes(1_000)}, {"network": network(max_tx_bytes=1_000)},
         (f"{INCLUDED}it is up to 182 bytes above the maximum of 1000 bytes of a signed transaction on mainnet: "
          "shorten its data.")),
        ({"requested_gas_limit": 20_999}, {}, f"{INCLUDED}its gas limit is 20999, and it needs at least 21000."),
        ({}, {"policies": {"whitelist_receivers": [ADDRESS]}},
         "The relayer's policy whitelist_receivers does not allow this receiver."),
    ],
)  # fmt: skip
def test_what_can_never_be_sent_fails(given: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    assert decide(row(**given), **changes) == Closing(row(), Cause.REFUSED, expected)


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        ({}, {"policies": {"gas_price_cap": 10 * GWEI}},
         "The market price of 10.01 gwei is above the relayer's gas_price_cap of 10 gwei."),
        ({}, {"network": network(max_gas_price=10 * GWEI)},
         "The market price of 10.01 gwei is above the maximum on mainnet of 10 gwei."),
        ({"pricing": "legacy", "gas_price_text": str(12 * GWEI)}, {"policies": {"gas_price_cap": 11 * GWEI}},
         "Its price of 12 gwei is above the relayer's gas_price_cap of 11 gwei."),
        ({}, {"network": network("optimism"), "charges": {"l1_fee": REFUSED, "operator_fee": OperatorFee()}},
         str(REFUSED)),
        # The no-op, whose price is not known.
        ({"requested_gas_limit": 50_000},
         {"network": network("linea"), "policies": {"gas_limit_estimation": False}, "gas": REVERT, "market": REVERT},
         "The node did not report the market price."),
    ],
)  # fmt: skip
def test_what_can_be_sent_later_waits(given: dict[str, Any], changes: dict[str, Any], expected: str) -> None:
    assert decide(row(**given), **changes) == Wait(row(), expected, 1)


@pytest.mark.parametrize(
    ("given", "changes", "limit"),
    [
        ({}, {"network": network(tx_gas_cap=None), "gas": 21_000}, 21_000),
        ({}, {"network": network(tx_gas_cap=None), "gas": 30_001}, 33_002),
        ({}, {"network": network(tx_gas_cap=32_000), "gas": 30_000}, 32_000),
        ({}, {"network": network(tx_gas_cap=30_000), "gas": 30_000}, 30_000),
        # A requested one is used exactly.
        ({"requested_gas_limit": 77_777}, {"gas": 60_000}, 77_777),
        ({"requested_gas_limit": 77_777}, {"policies": {"gas_limit_estimation": False}, "gas": REVERT}, 77_777),
    ],
)
def test_the_gas_limit_is_the_requested_one_or_the_estimate_with_a_buffer(
    given: dict[str, Any], changes: dict[str, Any], limit: int
) -> None:
    decision = decide(row(**given), **changes)
    assert isinstance(decision, Send)
    assert decision.gas_limit == limit


@pytest.mark.parametrize(
    ("name", "policies", "given", "method", "call"),
    [
        ("mainnet", {}, {"requested_gas_limit": 50_000}, "eth_estimateGas", {"gas": hex(50_000)}),
        # It overflows with its fee.
        ("mainnet", {}, {"value_text": str(2**256 - 1)}, "eth_estimateGas", {"value": hex(2**255)}),
        # zkSync overestimates.
        ("zksync-era", {}, {"requested_gas_limit": 50_000}, "zks_estimateFee", {}),
        # The policy was changed since.
        ("mainnet", {"gas_limit_estimation": False}, {}, "eth_estimateGas", {}),
        ("metis", {}, {}, "eth_estimateGas", {}),
    ],
)
def test_a_row_is_simulated_as_it_will_be_sent(
    name: str, policies: dict[str, Any], given: dict[str, Any], method: str, call: dict[str, str]
) -> None:
    reading = row_readings(sender_of(network(name), policies), row(**given))["gas"]
    expected = {"from": ADDRESS, "to": RECEIVER, "value": "0x0", "data": "0x"} | call
    # Without base fees, nodes simulate at the default block.
    block = ["latest"] if name == "mainnet" else []
    assert [(each.method, each.params) for each in reading.calls] == [(method, [expected, *block])]


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("optimism", {}, {"gas", "l1_fee", "operator_fee"}),
        ("optimism", {"nonce": 7}, set()),
        ("optimism", {"nonce": 7, "requested_action": "replace"}, {"gas", "l1_fee", "operator_fee"}),
        # Its gas pays for L1.
        ("arbitrum-one", {}, {"gas"}),
    ],
)
def test_the_charges_of_a_new_payload_are_read(name: str, given: dict[str, Any], expected: set[str]) -> None:
    assert {*row_readings(sender_of(network(name)), row(**given))} == expected


def test_what_is_simulated_without_a_receiver_or_not_at_all() -> None:
    (creation,) = row_readings(sender_of(), row(to="", data=b"\x60"))["gas"].calls
    assert creation.params[0] == {"from": ADDRESS, "value": "0x0", "data": "0x60"}
    call = {"from": ADDRESS, "to": ADDRESS, "value": "0x0", "data": "0x"}
    assert [(each.method, each.params) for each in noop_reading(sender_of()).calls] == [
        ("eth_estimateGas", [call, "latest"])
    ]
    assert row_readings(sender_of(), row(nonce=7)) == {}
    # The price of a row in flight on Linea is read with its gas.
    assert {*row_readings(sender_of(network("linea")), row(nonce=7))} == {"gas"}
    policies = {"gas_limit_estimation": False}
    assert row_readings(sender_of(policies=policies), row(requested_gas_limit=50_000)) == {}


UNMINED = f"{REVERT} It is simulated again, as earlier transactions are not mined yet."


BEHIND = f"{REVERT} It is simulated again, as the node is behind."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"account": account(has_unmined=True)}, UNMINED),
        # Behind a row that is not due.
        ({"account": account(first_pending=1)}, UNMINED),
        ({"account": account(first_pending=2)}, ""),
        # On a block before the last known, or on a node behind the cached head.
        ({"account": account(block=101)}, BEHIND),
        ({"account": account(block=100), "block": 99}, BEHIND),
        ({"account": account(block=100), "block": None}, BEHIND),
    ],
)
def test_a_revert_is_final_only_if_nothing_can_change_it(changes: dict[str, Any], expected: str) -> None:
    final = Closing(row(2), Cause.REFUSED, str(REVERT), REVERT.data)
    assert decide(row(2), gas=REVERT, **changes) == (Wait(row(2), expected, 1) if expected else final)


def test_a_revert_is_not_final_behind_another_row() -> None:
    # Of the same plan, or one that waits.
    for first in (row(1), row(1, pricing="legacy", gas_price_text=str(GWEI))):
        _, second = plan(first, row(2), gas={1: 21_000, 2: REVERT})
        assert second == Wait(row(2), UNMINED, 1)
    tried = decide(row(tries=4), gas=REVERT, account=account(has_unmined=True))
    assert tried == Wait(row(), UNMINED, planning.backoff(4))


def test_each_row_that_is_sent_leaves_less_for_the_next() -> None:
    cost = 21_000 * MAX_FEE
    for balance, sent in ((2 * cost, 2), (2 * cost - 1, 1)):
        decisions = plan(row(1), row(2), row(3), account=account(balance=balance))
        assert [type(each) for each in decisions] == [*[Send] * sent, *[Wait] * (3 - sent)]


def test_a_simulation_without_funds_waits_for_them() -> None:
    missing = [decide(row(value_text=str(value)), gas=gas) for gas in (FUNDS, REFUSED) for value in (10**19, 0)]
    amount = 9000378379394547 * 10**3
    assert [each.missing and each.missing.amount for each in missing if isinstance(each, Wait)] == [
        amount,
        None,
        amount,
        None,
    ]
    # Even if the balance suffices.
    assert missing[1] == Wait(row(), f"Waiting for funds: {FUNDS}", 1, MissingFunds(str(FUNDS), cost=21_000 * MAX_FEE))


def test_only_rows_that_are_sent_take_room() -> None:
    low = row(1, pricing="legacy", gas_price_text="1")
    for first, room, sent in ((row(1), 2, [Send, Send]), (low, 1, [Wait, Send])):
        decisions = plan(first, row(2), row(3), account=account(room=room))
        assert [(each.row.pk, type(each)) for each in decisions] == [*enumerate(sent, 1)]


def test_a_transfer_is_sent_at_the_price_of_its_speed() -> None:
    given = row(value_text="5")
    assert decide(given) == Send(given, 21_000, PRICES, 5 + 21_000 * MAX_FEE)


@pytest.mark.parametrize("policies", [{}, {"eip1559_pricing": False}], ids=["base fee", "gas price"])
@pytest.mark.parametrize("speed", [*Transaction.Speed])
def test_every_network_sends_at_every_speed(policies: dict[str, Any], speed: str) -> None:
    unsent = {}
    for name, each in networks().items():
        given = row(speed=speed)
        turn = read_all(sender_of(each, policies), given, head(100), eth_call=f"0x{1_000:064x}")
        (decision,) = planning.plan(turn, [given], account())
        if not isinstance(decision, Send) or decision.max_cost <= 0:
            unsent[name] = decision
    assert unsent == {}


def test_what_rows_share_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(side_effect=NodesUnreachable("connection failed"))
    monkeypatch.setattr("transactions.lanes.prices.context.read_market", read)
    with pytest.raises(NodesUnreachable):
        read_context(sender_of(network("optimism")), [row(1), row(2)], NOW)
    of_account = {"balance", "count", "pending count", "block"}
    own = {(pk, name) for pk in (1, 2) for name in ("gas", "l1_fee")}
    assert {*read.call_args.args[1]} == {*of_account, *own, "operator_fee"}


def test_linea_sends_at_the_price_that_it_reports_for_the_row() -> None:
    given, linea = row(), network("linea", tip_floor=0)
    (decision,) = planning.plan(read_all(sender_of(linea), given, head(7)), [given], account())
    # 1.125^4 * 7 is 11.2.
    assert decision == Send(given, 21_000, Prices(None, 20, 8), 21_000 * 20)


def test_charges_for_l1_and_the_operator_are_part_of_the_cost() -> None:
    given, optimism = row(), network("optimism", tip_floor=TIP)
    charges = {"l1_fee": 10_000, "operator_fee": OperatorFee(constant=3, per_million=1_000_000)}
    # The L1 fee has a margin of a tenth, and the operator takes 1 per gas.
    cost = 21_000 * MAX_FEE + 11_000 + 3 + 21_000
    assert decide(given, network=optimism, charges=charges) == Send(given, 21_000, PRICES, cost)


@pytest.mark.parametrize(("tries", "seconds"), [(0, 1), (1, 2), (5, 32), (6, 60), (10**6, 60)])
def test_the_wait_doubles_up_to_a_minute(tries: int, seconds: int) -> None:
    assert planning.backoff(tries) == seconds


def test_a_requested_price_below_the_base_fee_waits_and_is_overtaken() -> None:
    low = row(1, pricing="eip1559", max_fee_text=str(BASE_FEE - 1), max_priority_fee_text="1")
    assert plan(low, row(2)) == [
        Wait(low, "Its price of 9.999999999 gwei is below the next base fee of 10 gwei.", 1),
        Send(row(2), 21_000, PRICES, 21_000 * MAX_FEE),
    ]


def test_a_row_waits_for_the_funds_that_are_missing() -> None:
    decision = decide(
        row(value_text=str(10**18)),
        account=account(balance=10**18, in_flight_cost=10**17),
        # Only a warning.
        policies={"min_balance": 10**20},
        reserve=10**16,
    )
    details = (
        "0.110378379394547 ETH missing. It can cost 1.000378379394547 ETH, and the balance is 1 ETH, of which 0.1 ETH "
        "is kept for transactions in flight and 0.01 ETH is kept as the relayer's reserve."
    )
    missing = MissingFunds(details, 110378379394547 * 10**3, 1000378379394547 * 10**3)
    assert decision == Wait(row(), f"Waiting for funds: {details}", 1, missing)


def test_sixteen_poisoned_rows_do_not_hold_up_a_good_one() -> None:
    poisoned: list[Any] = [REVERT, InsufficientData("Nothing."), FUNDS, 10**9] * 4
    rows = [row(pk) for pk in range(17)]
    decisions = plan(*rows, gas=dict(enumerate([*poisoned, 21_000])))
    assert [isinstance(each, Send) for each in decisions] == [*[False] * 16, True]


def test_rows_wait_while_the_market_is_unknown() -> None:
    unknown = InsufficientData("The node did not report the fees of the last blocks.")
    assert plan(row(1), row(2), history=unknown) == [
        Wait(row(1), str(unknown), 1),
        Wait(row(2), str(unknown), 1),
    ]


@given(
    gas=st.lists(st.one_of(st.integers(21_000, 10**7), st.sampled_from([REVERT, FUNDS])), max_size=16),
    balance=st.integers(0, 10**18),
    reserved=st.integers(0, 10**17),
    kept=st.integers(0, 10**17),
    room=st.integers(0, 16),
)
def test_no_plan_spends_more_than_the_balance(
    gas: list[Any], balance: int, reserved: int, kept: int, room: int
) -> None:
    decisions = plan(
        *[row(pk, value_text=str(pk * 10**16)) for pk in range(len(gas))],
        gas=dict(enumerate(gas)),
        account=account(balance=balance, in_flight_cost=reserved, room=room),
        reserve=kept,
    )
    costs = [each.max_cost for each in decisions if isinstance(each, Send)]
    assert not costs or sum(costs) + reserved + kept <= balance
    assert len(costs) <= room
    assert [each.row.pk for each in decisions] == sorted(each.row.pk for each in decisions)


def test_a_requested_price_is_used_exactly() -> None:
    prices = Prices(max_fee=11 * GWEI, max_priority_fee=3)
    given = row(pricing="eip1559", max_fee_text=str(11 * GWEI), max_priority_fee_text="3")
    assert decide(given) == Send(row(), 21_000, prices, 21_000 * 11 * GWEI)
    given = row(pricing="legacy", gas_price_text=str(11 * GWEI))
    assert decide(given) == Send(row(), 21_000, Prices(gas_price=11 * GWEI), 21_000 * 11 * GWEI)
