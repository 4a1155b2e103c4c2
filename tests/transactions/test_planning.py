"""Planning: which pending transactions are sent, at what gas and cost, and why others wait or fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.errors import ExecutionReverted, InsufficientData
from chain.fees.fee_models import OperatorFee
from chain.networks import networks
from chain.transactions import Prices
from tests.transactions.lane_values import (
    ADDRESS,
    BASE_FEE,
    GWEI,
    RECEIVER,
    TIP,
    account,
    found,
    head,
    network,
    read_all,
    row,
)
from transactions.lanes.prices import planning
from transactions.lanes.prices.planning import Closing, Decision, MissingFunds, Send, Wait
from transactions.lanes.prices.simulation import noop_readings
from transactions.models import Transaction
from transactions.records.states import Cause

# Four blocks of an eighth more, and the tip.
MAX_FEE = 16_018_066_407 + TIP
PRICES = Prices(max_fee=MAX_FEE, max_priority_fee=TIP)
REVERT = ExecutionReverted('The transaction would revert: "too early".', b"\x08\xc3\x79\xa0")
FUNDS = ExecutionReverted("The transaction cannot be executed: no balance.", is_unfunded=True)


def plan(*rows: Transaction, policies: dict[str, Any] | None = None, **changes: Any) -> list[Decision]:
    """Plan rows on mainnet, with what was read and the account as given or as usual."""
    values: dict[str, Any] = {"network": network(), "found": found(), "account": account(), **changes}
    return planning.plan(values["network"], policies or {}, rows, values["found"], values["account"])


def decide(given: Transaction, **changes: Any) -> Decision:
    (decision,) = plan(given, **changes)
    return decision


def reason(given: Transaction, **changes: Any) -> str:
    decision = decide(given, **changes)
    assert isinstance(decision, Wait | Closing)
    return decision.reason


def test_a_transfer_is_sent_at_the_price_of_its_speed() -> None:
    given = row(value_text="5")
    assert decide(given) == Send(given, 21_000, PRICES, 5 + 21_000 * MAX_FEE)


@pytest.mark.parametrize("policies", [{}, {"eip1559_pricing": False}], ids=["base fee", "gas price"])
@pytest.mark.parametrize("speed", [*Transaction.Speed])
def test_every_network_sends_at_every_speed(policies: dict[str, Any], speed: str) -> None:
    unsent = {}
    for name, each in networks().items():
        given = row(speed=speed)
        values = read_all(planning.readings(each, policies, [given], ADDRESS), eth_call=f"0x{1_000:064x}")
        decision = decide(given, network=each, policies=policies, found=values)
        if not isinstance(decision, Send) or decision.max_cost <= 0:
            unsent[name] = decision
    assert unsent == {}


def test_the_readings_of_a_row_are_named_by_it_and_those_of_the_market_are_shared() -> None:
    names = {*planning.readings(network("optimism"), {}, [row(1), row(2)], ADDRESS)}
    assert names == {"history", "operator_fee", "1:gas", "1:l1_fee", "2:gas", "2:l1_fee"}


def test_a_row_in_flight_is_not_simulated() -> None:
    assert {*planning.readings(network(), {}, [row(nonce=7)], ADDRESS)} == {"history"}


def test_the_price_of_a_row_in_flight_on_linea_is_read_with_its_gas() -> None:
    assert {*planning.readings(network("linea"), {}, [row(nonce=7)], ADDRESS)} == {"market", "1:gas"}


def test_linea_sends_at_the_price_that_it_reports_for_the_row() -> None:
    given, linea = row(), network("linea", tip_floor=0)
    values = read_all(planning.readings(linea, {}, [given], ADDRESS)) | {"head": head(7)}
    # 1.125^4 * 7 is 11.2.
    assert decide(given, network=linea, found=values) == Send(given, 21_000, Prices(None, 20, 8), 21_000 * 20)


def test_charges_for_l1_and_the_operator_are_part_of_the_cost() -> None:
    given, optimism = row(), network("optimism", tip_floor=TIP)
    values = found() | {"1:l1_fee": 10_000, "operator_fee": OperatorFee(constant=3, per_million=1_000_000)}
    # The L1 fee has a margin of a tenth, and the operator takes 1 per gas.
    cost = 21_000 * MAX_FEE + 11_000 + 3 + 21_000
    assert decide(given, network=optimism, found=values) == Send(given, 21_000, PRICES, cost)


def test_a_row_waits_if_its_charges_are_unknown() -> None:
    unknown = InsufficientData("The network did not report its L1 data fee.")
    values = found() | {"1:l1_fee": unknown, "operator_fee": OperatorFee()}
    assert decide(row(), network=network("optimism"), found=values) == Wait(row(), str(unknown), 1)


@pytest.mark.parametrize(
    ("estimate", "cap", "limit"),
    [(21_000, None, 21_000), (30_001, None, 33_002), (30_000, 32_000, 32_000), (30_000, 30_000, 30_000)],
)
def test_the_gas_limit_is_the_estimate_with_a_buffer(estimate: int, cap: int | None, limit: int) -> None:
    decision = decide(row(), network=network(tx_gas_cap=cap), found=found(gas=estimate))
    assert isinstance(decision, Send)
    assert decision.gas_limit == limit


def test_a_row_that_needs_more_gas_than_the_network_allows_fails() -> None:
    assert decide(row(), network=network(tx_gas_cap=30_000), found=found(gas=30_001)) == Closing(
        row(),
        Cause.REFUSED,
        "The transaction cannot be included: it needs 30001 gas, above the maximum of 30000 on mainnet.",
    )


def test_a_limit_above_that_of_a_block_fails() -> None:
    assert reason(row(requested_gas_limit=30_000_001), network=network(tx_gas_cap=None)) == (
        "The transaction cannot be included: it needs 30000001 gas, above the maximum of 30000000 on mainnet."
    )


def test_a_payload_that_is_too_large_for_the_nodes_fails() -> None:
    """The limit of a network may be lowered after a request was accepted."""
    assert reason(row(data=bytes(1_000)), network=network(max_tx_bytes=1_000)) == (
        "The transaction cannot be included: it is up to 182 bytes above the maximum of 1000 bytes of a signed "
        "transaction on mainnet: shorten its data."
    )


def test_a_limit_above_that_of_a_block_fails_even_if_it_cannot_be_simulated() -> None:
    refused = InsufficientData("The node refused to estimate the gas of the transaction.")
    given = row(requested_gas_limit=30_000_001)
    assert reason(given, network=network(tx_gas_cap=None), found=found(gas=refused)) == (
        "The transaction cannot be included: it needs 30000001 gas, above the maximum of 30000000 on mainnet."
    )


@pytest.mark.parametrize("estimation", [True, False])
def test_a_requested_gas_limit_is_used_exactly(estimation: bool) -> None:
    policies = {"gas_limit_estimation": estimation}
    decision = decide(row(requested_gas_limit=77_777), policies=policies, found=found(gas=60_000))
    assert isinstance(decision, Send)
    assert decision.gas_limit == 77_777


def test_a_requested_gas_limit_without_estimation_is_not_simulated() -> None:
    given, policies = row(requested_gas_limit=50_000), {"gas_limit_estimation": False}
    values = found(gas=REVERT)
    assert {*planning.readings(network(), policies, [given], ADDRESS)} == {"history"}
    assert isinstance(decide(given, policies=policies, found=values), Send)


def test_a_requested_gas_limit_is_simulated_with_it() -> None:
    reading = planning.readings(network(), {}, [row(requested_gas_limit=50_000)], ADDRESS)["1:gas"]
    call = {"from": ADDRESS, "to": RECEIVER, "value": "0x0", "data": "0x", "gas": hex(50_000)}
    assert [(each.method, each.params) for each in reading.calls] == [("eth_estimateGas", [call, "latest"])]


def test_a_value_that_overflows_with_its_fee_is_simulated_with_less() -> None:
    reading = planning.readings(network(), {}, [row(value_text=str(2**256 - 1))], ADDRESS)["1:gas"]
    assert reading.calls[0].params[0] == {"from": ADDRESS, "to": RECEIVER, "value": hex(2**255), "data": "0x"}


def test_zksync_which_overestimates_simulates_without_the_limit() -> None:
    reading = planning.readings(network("zksync-era"), {}, [row(requested_gas_limit=50_000)], ADDRESS)["1:gas"]
    call = {"from": ADDRESS, "to": RECEIVER, "value": "0x0", "data": "0x"}
    assert [(each.method, each.params) for each in reading.calls] == [("zks_estimateFee", [call])]


def test_without_a_limit_gas_is_estimated_even_if_the_policy_was_changed() -> None:
    assert "1:gas" in planning.readings(network(), {"gas_limit_estimation": False}, [row()], ADDRESS)


def test_a_limit_below_the_intrinsic_gas_fails() -> None:
    assert reason(row(requested_gas_limit=20_999)) == (
        "The transaction cannot be included: its gas limit is 20999, and it needs at least 21000."
    )


def test_a_revert_is_final_if_nothing_is_unmined() -> None:
    assert decide(row(), found=found(gas=REVERT)) == Closing(row(), Cause.REFUSED, str(REVERT), b"\x08\xc3\x79\xa0")


UNMINED = f"{REVERT} It is simulated again, as earlier transactions are not mined yet."


@pytest.mark.parametrize("tries", [0, 4, 5, 100])
def test_a_revert_is_not_final_while_an_earlier_one_is_unmined(tries: int) -> None:
    decision = decide(row(tries=tries), found=found(gas=REVERT), account=account(has_unmined=True))
    assert decision == Wait(row(), UNMINED, planning.backoff(tries))


def test_a_revert_is_not_final_behind_a_row_of_the_same_plan() -> None:
    _, second = plan(row(1), row(2), found=found(gas={1: 21_000, 2: REVERT}))
    assert second == Wait(row(2), UNMINED, 1)


def test_a_revert_is_not_final_behind_a_row_that_waits() -> None:
    first = row(1, pricing="legacy", gas_price_text=str(GWEI))
    _, second = plan(first, row(2), found=found(gas={1: 21_000, 2: REVERT}))
    assert second == Wait(row(2), UNMINED, 1)


def test_a_revert_on_a_block_before_the_last_known_is_not_final() -> None:
    decision = decide(row(), found=found(gas=REVERT), account=account(block=101))
    assert decision == Wait(row(), f"{REVERT} It is simulated again, as the node is behind.", 1)


@pytest.mark.parametrize(("tries", "seconds"), [(0, 1), (1, 2), (5, 32), (6, 60), (10**6, 60)])
def test_the_wait_doubles_up_to_a_minute(tries: int, seconds: int) -> None:
    assert planning.backoff(tries) == seconds


def test_a_market_above_the_cap_waits() -> None:
    assert decide(row(), policies={"gas_price_cap": 10 * GWEI}) == Wait(
        row(), "The market price of 10.01 gwei is above the relayer's gas_price_cap of 10 gwei.", 1
    )


def test_a_market_above_the_maximum_of_the_network_waits() -> None:
    assert decide(row(), network=network(max_gas_price=10 * GWEI)) == Wait(
        row(), "The market price of 10.01 gwei is above the maximum on mainnet of 10 gwei.", 1
    )


def test_a_requested_price_below_the_base_fee_waits_and_is_overtaken() -> None:
    low = row(1, pricing="eip1559", max_fee_text=str(BASE_FEE - 1), max_priority_fee_text="1")
    assert plan(low, row(2)) == [
        Wait(low, "Its price of 9.999999999 gwei is below the next base fee of 10 gwei.", 1),
        Send(row(2), 21_000, PRICES, 21_000 * MAX_FEE),
    ]


@pytest.mark.parametrize(
    ("fields", "prices"),
    [
        ({"pricing": "legacy", "gas_price_text": str(11 * GWEI)}, Prices(gas_price=11 * GWEI)),
        (
            {"pricing": "eip1559", "max_fee_text": str(11 * GWEI), "max_priority_fee_text": "3"},
            Prices(max_fee=11 * GWEI, max_priority_fee=3),
        ),
    ],
)
def test_a_requested_price_is_used_exactly(fields: dict[str, Any], prices: Prices) -> None:
    assert decide(row(**fields)) == Send(row(), 21_000, prices, 21_000 * 11 * GWEI)


def test_a_requested_price_above_a_cap_that_was_lowered_waits() -> None:
    given = row(pricing="legacy", gas_price_text=str(12 * GWEI))
    assert reason(given, policies={"gas_price_cap": 11 * GWEI}) == (
        "Its price of 12 gwei is above the relayer's gas_price_cap of 11 gwei."
    )


def test_a_row_waits_for_the_funds_that_are_missing() -> None:
    decision = decide(
        row(value_text=str(10**18)),
        account=account(balance=10**18, in_flight_cost=10**17),
        policies={"min_balance": 10**16},
    )
    details = (
        "0.110378379394547 ETH are missing. It can cost 1.000378379394547 ETH, the balance is 1 ETH, of which 0.1 ETH "
        "are reserved for transactions in flight and 0.01 ETH for the policy min_balance."
    )
    missing = MissingFunds(details, 110378379394547 * 10**3)
    assert decision == Wait(row(), f"Waiting for funds: {details}", 1, missing)


def test_the_exact_balance_suffices() -> None:
    cost = 21_000 * MAX_FEE
    assert isinstance(decide(row(), account=account(balance=cost)), Send)
    assert isinstance(decide(row(), account=account(balance=cost - 1)), Wait)


def test_each_row_that_is_sent_leaves_less_for_the_next() -> None:
    decisions = plan(row(1), row(2), row(3), account=account(balance=2 * 21_000 * MAX_FEE))
    assert [type(each) for each in decisions] == [Send, Send, Wait]


def test_a_simulation_without_funds_waits_for_them() -> None:
    decision = decide(row(value_text=str(10**19)), found=found(gas=FUNDS))
    assert isinstance(decision, Wait)
    assert decision.missing
    assert decision.missing.amount == 9000378379394547 * 10**3


def test_a_simulation_without_funds_waits_even_if_the_balance_suffices() -> None:
    assert decide(row(), found=found(gas=FUNDS)) == Wait(
        row(), f"Waiting for funds: {FUNDS}", 1, MissingFunds(str(FUNDS))
    )


def test_an_unknown_estimate_without_funds_waits_for_them() -> None:
    unknown = found(gas=InsufficientData("The node refused to estimate the gas of the transaction."))
    waits = [decide(row(value_text=str(value)), found=unknown) for value in (10**19, 0)]
    assert [each.missing is not None for each in waits if isinstance(each, Wait)] == [True, False]


def test_a_reverting_no_op_on_linea_fails_no_row() -> None:
    given, policies = row(requested_gas_limit=50_000), {"gas_limit_estimation": False}
    values = found(gas=REVERT, market=REVERT)
    assert decide(given, network=network("linea"), policies=policies, found=values) == Wait(
        given, "The node did not report the market price.", 1
    )


def test_a_network_without_base_fees_simulates_at_the_default_block() -> None:
    reading = planning.readings(network("metis"), {}, [row()], ADDRESS)["1:gas"]
    assert [len(call.params) for call in reading.calls] == [1]


def test_a_receiver_that_is_no_longer_allowed_fails() -> None:
    assert decide(row(), policies={"whitelist_receivers": [ADDRESS]}) == Closing(
        row(), Cause.REFUSED, "The relayer's policy whitelist_receivers does not allow this receiver."
    )


def test_sixteen_poisoned_rows_do_not_hold_up_a_good_one() -> None:
    poisoned: list[Any] = [REVERT, InsufficientData("Nothing."), FUNDS, 10**9] * 4
    rows = [row(pk) for pk in range(17)]
    decisions = plan(*rows, found=found(gas=dict(enumerate([*poisoned, 21_000]))))
    assert [isinstance(each, Send) for each in decisions] == [*[False] * 16, True]


def test_rows_beyond_the_room_have_no_decision() -> None:
    decisions = plan(row(1), row(2), row(3), account=account(room=2))
    assert [(each.row.pk, type(each)) for each in decisions] == [(1, Send), (2, Send)]


def test_a_row_that_waits_takes_no_room() -> None:
    low = row(1, pricing="legacy", gas_price_text="1")
    decisions = plan(low, row(2), row(3), account=account(room=1))
    assert [(each.row.pk, type(each)) for each in decisions] == [(1, Wait), (2, Send)]


def test_rows_wait_while_the_market_is_unknown() -> None:
    unknown = InsufficientData("The node did not report the fees of the last blocks.")
    assert plan(row(1), row(2), found=found(history=unknown)) == [
        Wait(row(1), str(unknown), 1),
        Wait(row(2), str(unknown), 1),
    ]


def test_a_contract_creation_is_simulated_without_a_receiver() -> None:
    reading = planning.readings(network(), {}, [row(to="", data=b"\x60")], ADDRESS)["1:gas"]
    assert reading.calls[0].params[0] == {"from": ADDRESS, "value": "0x0", "data": "0x60"}


def test_a_no_op_sends_nothing_from_the_account_to_itself() -> None:
    reading = noop_readings(network(), ADDRESS)["noop_gas"]
    call = {"from": ADDRESS, "to": ADDRESS, "value": "0x0", "data": "0x"}
    assert [(each.method, each.params) for each in reading.calls] == [("eth_estimateGas", [call, "latest"])]


@given(
    gas=st.lists(st.one_of(st.integers(21_000, 10**7), st.sampled_from([REVERT, FUNDS])), max_size=16),
    balance=st.integers(0, 10**18),
    reserved=st.integers(0, 10**17),
    minimum=st.integers(0, 10**17),
    room=st.integers(0, 16),
)
def test_no_plan_spends_more_than_the_balance(
    gas: list[Any], balance: int, reserved: int, minimum: int, room: int
) -> None:
    decisions = plan(
        *[row(pk, value_text=str(pk * 10**16)) for pk in range(len(gas))],
        found=found(gas=dict(enumerate(gas))),
        account=account(balance=balance, in_flight_cost=reserved, room=room),
        policies={"min_balance": minimum},
    )
    costs = [each.max_cost for each in decisions if isinstance(each, Send)]
    assert not costs or sum(costs) + reserved + minimum <= balance
    assert len(costs) <= room
    assert [each.row.pk for each in decisions] == sorted(each.row.pk for each in decisions)


def test_a_revert_is_not_final_behind_a_row_that_is_not_due() -> None:
    decision = decide(row(7), found=found(gas=REVERT), account=account(first_pending=3))
    assert decision == Wait(row(7), UNMINED, 1)
    decision = decide(row(7), found=found(gas=REVERT), account=account(first_pending=7))
    assert decision == Closing(row(7), Cause.REFUSED, str(REVERT), REVERT.data)


def test_a_revert_is_not_final_on_a_node_behind_the_cached_head() -> None:
    readings = found(gas=REVERT) | {planning.BLOCK: 99}
    decision = decide(row(), found=readings, account=account(block=100))
    assert decision == Wait(row(), f"{REVERT} It is simulated again, as the node is behind.", 1)
