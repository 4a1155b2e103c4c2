"""The oracles of the tests against what the rollups publish: each vector has its source beside it.

For Linea, zkSync and Arbitrum there is no formula of a contract: their nodes compute the fee.
"""

from __future__ import annotations

import pytest
import rlp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.chain import rollup_fees
from tests.chain.hardhat import GAS_PRICE_ORACLE, SCROLL_ORACLE, Chain
from tests.chain.oracle_vectors import CALL, EMPTY, NOISE, SAFE_CALL

# l1BaseFee, blobBaseFee, baseFeeScalar and blobBaseFeeScalar.
Prices = tuple[int, int, int, int]
OPTIMISM_TEST: Prices = (2 * 10**6, 3 * 10**6, 20, 15)
OP_GETH_TEST: Prices = (1000 * 10**6, 10 * 10**6, 2, 3)
OP_REVM_TEST: Prices = (1_000, 1_000, 1_000, 1_000)
# Of OP Mainnet's block 124665056.
MAINNET: Prices = (1_055_991_687, 1, 5_227, 1_014_213)


def op_stack(chain: Chain, prices: Prices, contract: str = "GasPriceOracle") -> None:
    chain.set_code(GAS_PRICE_ORACLE, contract)
    chain.send(GAS_PRICE_ORACLE, "set(uint256,uint256,uint256,uint256)", *prices)


def l1_fee(chain: Chain, data: bytes) -> int:
    fee: int = chain.call(GAS_PRICE_ORACLE, "getL1Fee(bytes)(uint256)", data)
    return fee


def unsigned_of(signed: bytes) -> bytes:
    """Return a type 2 transaction without its signature."""
    return signed[:1] + bytes(rlp.encode(rlp.decode(signed[1:])[:-3]))


@pytest.mark.parametrize(
    ("data", "length"),
    [
        # op-geth core/types/rollup_cost_test.go, TestFlzCompressLen.
        (b"", 0),
        (b"\1" * 1000, 21),
        (bytes(1000), 21),
        (EMPTY, 31),
        (CALL, 202),
        # optimism GasPriceOracle.t.sol 1.3.0: 235 and 74 with the 68 of the signature.
        (NOISE, 167),
        (bytes.fromhex("0000010203"), 6),
    ],
    ids=["empty", "ones", "zeros", "empty transaction", "call", "noise", "five bytes"],
)
def test_compressed_lengths_are_those_of_op_geth(chain: Chain, data: bytes, length: int) -> None:
    chain.set_code(GAS_PRICE_ORACLE, "GasPriceOracle")
    assert chain.call(GAS_PRICE_ORACLE, "flzLength(bytes)(uint256)", data) == length
    assert rollup_fees.fastlz_length(data) == length


@pytest.mark.parametrize("contract", ["GasPriceOracle", "MantleGasPriceOracle"])
@pytest.mark.parametrize(
    ("data", "fee", "upper_bound", "gas"),
    [
        # optimism packages/contracts-bedrock/test/L2/GasPriceOracle.t.sol 1.3.0, GasPriceOracleFjordActive_Test; and
        # mantle-v2's test of the same name for 1.1.0, GasPriceOracle_Arsia_Test, with the same numbers.
        (bytes.fromhex("0000010203"), 68_500, 68_500, 1_600),
        (NOISE, 105_484, 111_214, 2_463),
    ],
    ids=["at the minimum", "by the line"],
)
def test_l1_fees_are_those_of_the_published_oracle(
    chain: Chain, contract: str, data: bytes, fee: int, upper_bound: int, gas: int
) -> None:
    op_stack(chain, OPTIMISM_TEST, contract)
    assert l1_fee(chain, data) == rollup_fees.op_stack_l1_fee(data, *OPTIMISM_TEST) == fee
    assert chain.call(GAS_PRICE_ORACLE, "getL1FeeUpperBound(uint256)(uint256)", len(data)) == upper_bound
    assert chain.call(GAS_PRICE_ORACLE, "getL1GasUsed(bytes)(uint256)", data) == gas


@pytest.mark.parametrize(
    ("signed", "prices", "charge"),
    [
        # op-geth core/types/rollup_cost_test.go, fjordFee.
        (EMPTY, OP_GETH_TEST, 3_203_000),
        # bluealloy/revm crates/op-revm/src/l1block.rs, test_calculate_tx_l1_cost_fjord and calculate_tx_l1_cost_fjord:
        # the last is what OP Mainnet really charged.
        (bytes.fromhex("facade"), OP_REVM_TEST, 1_700),
        (CALL, OP_REVM_TEST, 2_148),
        (SAFE_CALL, MAINNET, 0x5BF1AB43D),
    ],
    ids=["empty transaction", "three bytes", "call", "mainnet"],
)
def test_charges_are_those_of_nodes(signed: bytes, prices: Prices, charge: int) -> None:
    assert rollup_fees.op_stack_charge(signed, *prices) == charge


def test_the_oracle_returns_the_fee_of_mainnet_within_a_hundredth(chain: Chain) -> None:
    op_stack(chain, MAINNET)
    charged = 0x5BF1AB43D
    assert 100 * abs(l1_fee(chain, unsigned_of(SAFE_CALL)) - charged) <= charged
    # With a signature behind it, which the oracle adds itself, it is far too much.
    assert 100 * l1_fee(chain, SAFE_CALL) > 115 * charged


@pytest.mark.parametrize(
    ("contract", "scalar", "constant", "gas", "fee"),
    [
        # op-geth core/types/rollup_cost_test.go, TestNewOperatorCostFunc.
        ("IsthmusGasPriceOracle", 1_439_103_868, 1_256_417_826_609_331_460, 1_618, 1_256_417_826_611_659_930),
        ("JovianGasPriceOracle", 1_439_103_868, 1_256_417_826_609_331_460, 1_618, 1_256_650_673_615_173_860),
        # bluealloy/revm crates/op-revm/src/l1block.rs, test_operator_fee_charge_formulas.
        ("IsthmusGasPriceOracle", 1_000, 10, 1_000, 11),
        ("JovianGasPriceOracle", 1_000, 10, 1_000, 100_000_010),
        # mantlenetworkio/op-geth core/types/rollup_cost_test.go, arisaOperatorFee; mantle-xyz/revm
        # crates/op-revm/src/l1block.rs, test_operator_fee_charge_formulas.
        ("MantleGasPriceOracle", 1_439_103_868, 1_256_417_826_609_331_460, 1_618, 1_256_650_673_615_173_860),
        ("MantleGasPriceOracle", 1_000, 10, 1_000, 100_000_010),
    ],
)
def test_operator_fees_are_those_of_nodes(
    chain: Chain, contract: str, scalar: int, constant: int, gas: int, fee: int
) -> None:
    chain.set_code(GAS_PRICE_ORACLE, contract)
    chain.send(GAS_PRICE_ORACLE, "setOperatorFee(uint256,uint256)", scalar, constant)
    assert chain.call(GAS_PRICE_ORACLE, "getOperatorFee(uint256)(uint256)", gas) == fee


@pytest.mark.parametrize(
    ("data", "prices", "ratio", "charge"),
    [
        # mantlenetworkio/op-geth core/types/rollup_cost_test.go, ArsiaFee.
        (EMPTY, OP_GETH_TEST, 1_000_000, 3_203_000_000_000),
        # mantle-xyz/revm crates/op-revm/src/l1block.rs: 1,700 times the ratio.
        (bytes.fromhex("facade"), OP_REVM_TEST, 4_368, 1_700 * 4_368),
    ],
    ids=["empty transaction", "three bytes"],
)
def test_mantle_charges_its_oracles_fee_times_the_token_ratio(
    chain: Chain, data: bytes, prices: Prices, ratio: int, charge: int
) -> None:
    op_stack(chain, prices, "MantleGasPriceOracle")
    chain.send(GAS_PRICE_ORACLE, "setTokenRatio(uint256)", ratio)
    # Both are at the minimum, with a signature or without.
    assert l1_fee(chain, data) * chain.call(GAS_PRICE_ORACLE, "tokenRatio()(uint256)") == charge


@pytest.mark.parametrize(
    ("prices", "length", "fee"),
    [
        # DogeOS69/scroll-contracts src/test/SubmitL1GasPriceOracleConfig.t.sol f843117d, a rollup with Scroll's
        # contracts: Scroll's own tests of this fork compare with the formula, and have no numbers.
        ((28_876_074_349_204, 1_493_712_122_980, 38_720_000_000, 8_000_000_000, 10_000), 131, 149_973_346_454_534_144),
        ((1, 1, 38_720_000_000, 8_000_000_000, 10_000), 131, 6_200),
    ],
    ids=["production", "smallest"],
)
def test_scroll_fees_since_galileo(
    chain: Chain, prices: tuple[int, int, int, int, int], length: int, fee: int
) -> None:
    scroll(chain, prices)
    assert scroll_fee(chain, bytes(length)) == rollup_fees.scroll_l1_fee(length, *prices) == fee


@pytest.mark.parametrize(("penalty_factor", "fee"), [(10**9, 3_000), (2 * 10**9, 6_000)])
def test_scroll_fees_since_feynman(chain: Chain, penalty_factor: int, fee: int) -> None:
    """The vectors are scroll-tech/go-ethereum's, rollup/fees/rollup_fee_test.go 116ba76f, TestL1DataFeeFeynman."""
    scroll(chain, (10**9, 10**9, 10, 20, penalty_factor), "FeynmanL1GasPriceOracle")
    assert scroll_fee(chain, bytes(100)) == fee


def scroll(chain: Chain, prices: tuple[int, int, int, int, int], contract: str = "L1GasPriceOracle") -> None:
    chain.set_code(SCROLL_ORACLE, contract)
    chain.send(SCROLL_ORACLE, "set(uint256,uint256,uint256,uint256,uint256)", *prices)


def scroll_fee(chain: Chain, data: bytes) -> int:
    fee: int = chain.call(SCROLL_ORACLE, "getL1Fee(bytes)(uint256)", data)
    return fee


# Bytes as transactions have them: words that begin with zeros, and some that were there before.
WORDS = st.binary(min_size=1, max_size=32).map(lambda word: word.rjust(32, b"\0"))
DATA = st.lists(WORDS | st.binary(max_size=40), max_size=24).map(b"".join)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=DATA, repeats=st.integers(1, 3))
def test_the_contract_and_the_formula_agree_on_any_bytes(chain: Chain, data: bytes, repeats: int) -> None:
    op_stack(chain, MAINNET)
    assert l1_fee(chain, data * repeats) == rollup_fees.op_stack_l1_fee(data * repeats, *MAINNET)
