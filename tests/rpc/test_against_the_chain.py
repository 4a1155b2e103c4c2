"""Quotes against what is really paid in the next block: 200 random transactions, while base fees rise and fall.

`pytest tests/rpc/test_against_the_chain.py -s` prints the figures that docs/fee-estimation.md sums up.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from fractions import Fraction

import pytest
from pytest_django import Settings

from relayers.models import Relayer
from tests.chain import rollup_fees
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import GAS_PRICE_ORACLE, SCROLL_ORACLE, Chain
from tests.relayers import factories as relayers
from tests.rpc.factories import ROLLUPS, fee_networks
from tests.rpc.sent_transactions import BLOBS, COUNTS, Outcome, mined_by_hand, table

__all__ = ["fee_networks"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fee_networks")]

MAX_MEDIAN_ERROR = Fraction(3, 100)
# The base fee and the blob base fee of L1, and the scalars: such that data costs about as much as gas does here.
OP_STACK_PRICES = (30 * 10**12, 10**9, 5_227, 1_014_213)
SCROLL_PRICES = (2 * 10**12, 10**9, 10**9, 10**9, 10**4)
TOKEN_RATIO = 3_789
ON_ROLLUPS = dict.fromkeys(COUNTS, 6)
OPERATOR_SCALAR, OPERATOR_CONSTANT = 1_500_000, 10**12 + 7


@pytest.fixture
def relayer(chain: Chain, settings: Settings) -> Relayer:
    settings.EXTENSIONS = ["quotes"]
    return relayers.relayer(rpc_urls=[{"url": chain.url, "weight": 100}], network="none")


def check_maximum(outcomes: Sequence[Outcome]) -> None:
    print(f"\n{table(outcomes)}")
    assert [outcome for outcome in outcomes if outcome.paid > outcome.maximum] == []


def check(outcomes: Sequence[Outcome]) -> None:
    check_maximum(outcomes)
    assert statistics.median(abs(outcome.error) for outcome in outcomes) <= MAX_MEDIAN_ERROR


@pytest.mark.long
def test_the_paid_fee_is_at_most_the_maximum_and_near_the_expected_one(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    with mined_by_hand(chain, deployed, relayer, seed=1) as run:
        outcomes = run.send_all(COUNTS)
    check(outcomes)
    assert len(outcomes) == 200
    moves = [after - before for before, after in (outcome.base_fees for outcome in outcomes)]
    assert sum(move > 0 for move in moves) >= 50
    assert sum(move < 0 for move in moves) >= 50


def test_the_maximum_holds_for_a_block_more(chain: Chain, deployed: Deployed, relayer: Relayer) -> None:
    """After it the base fee has moved by up to an eighth, which the default margin covers."""
    with mined_by_hand(chain, deployed, relayer, seed=2) as run:
        outcomes = run.send_all(dict.fromkeys(COUNTS, 7), blocks_between=1)
    check_maximum(outcomes)


# The node's first blob takes it half a minute.
@pytest.mark.long
def test_what_is_paid_for_blobs_is_at_most_the_maximum_and_near_what_was_expected(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    with mined_by_hand(chain, deployed, relayer, seed=3) as run:
        check(run.send_all(BLOBS))


@pytest.mark.parametrize("oracle", ["IsthmusGasPriceOracle", "JovianGasPriceOracle", "MantleGasPriceOracle"])
def test_what_the_op_stack_charges_is_at_most_the_maximum_and_near_what_was_expected(
    chain: Chain, deployed: Deployed, relayer: Relayer, oracle: str
) -> None:
    """The oracle is asked before there is a signature; the charge is by what nodes take for the signed bytes."""
    relayer.network = ROLLUPS[oracle]
    chain.set_code(GAS_PRICE_ORACLE, oracle)
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256,uint256)", *OP_STACK_PRICES)
    chain.send(GAS_PRICE_ORACLE, "setOperatorFee(uint256,uint256)", OPERATOR_SCALAR, OPERATOR_CONSTANT)
    ratio = 1
    if relayer.network == "mantle":
        ratio = TOKEN_RATIO
        chain.send(GAS_PRICE_ORACLE, "setTokenRatio(uint256)", ratio)
    with mined_by_hand(chain, deployed, relayer, seed=4) as run:
        run.data_charge = lambda signed: ratio * rollup_fees.op_stack_charge(signed, *OP_STACK_PRICES)
        run.operator_charge = lambda gas: chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas)
        outcomes = run.send_all(ON_ROLLUPS)
    check(outcomes)
    check_data_fees(outcomes)


def test_what_scroll_charges_is_at_most_the_maximum_and_near_what_was_expected(
    chain: Chain, deployed: Deployed, relayer: Relayer
) -> None:
    relayer.network = "scroll"
    chain.set_code(SCROLL_ORACLE, "L1GasPriceOracle")
    chain.send(SCROLL_ORACLE, "set(uint256,uint256,uint256,uint256,uint256)", *SCROLL_PRICES)
    with mined_by_hand(chain, deployed, relayer, seed=5) as run:
        run.data_charge = lambda signed: rollup_fees.scroll_l1_fee(rollup_fees.scroll_length(signed), *SCROLL_PRICES)
        outcomes = run.send_all(ON_ROLLUPS)
    check(outcomes)
    check_data_fees(outcomes)


def check_data_fees(outcomes: Sequence[Outcome]) -> None:
    errors = []
    for expected, maximum, charged in (outcome.data_fees for outcome in outcomes):
        assert 0 < charged <= maximum
        errors.append(Fraction(abs(expected - charged), charged))
    assert statistics.median(errors) <= MAX_MEDIAN_ERROR
