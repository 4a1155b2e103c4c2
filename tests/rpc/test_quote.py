"""How long a quote is valid."""

from __future__ import annotations

from fractions import Fraction

import pytest

from chain.fees.gas_price import GasPrice
from chain.fees.native_fee import Gas, NativeFee
from chain.fees.network_fees import Charges
from chain.nodes.head import Head
from relayer_service.amounts import NOTHING, Amount
from rpc.errors import PriceUnavailable
from rpc.fees.prices import Quote
from rpc.fees.quote import FeeQuote, TokenFee
from rpc.fees.sources.base import SourcePrice
from tests.chain.answering_node import local_network
from tests.relayers.factories import ADDRESS
from tests.rpc.factories import TOKEN


@pytest.mark.parametrize(
    ("fresh_until", "now", "valid_until"),
    [
        ([], 1_005, 1_012),
        ([2_000], 1_005, 1_012),
        # The first price to get stale.
        ([2_000, 1_009], 1_005, 1_009),
        # The next block is due, or a price stale, already.
        ([], 1_013.5, 1_013.5),
        ([900], 1_005, 1_005),
    ],
)
def test_a_quote_is_valid_until_the_next_block_is_due_or_a_price_gets_stale(
    fresh_until: list[int], now: float, valid_until: float
) -> None:
    gas = Gas(21_000, True, 0, Amount(21_000, 21_000))
    network, head = local_network(block_seconds=12), Head(1, 1_000, 0, 30_000_000)
    fee = NativeFee(network, head, ADDRESS, gas, GasPrice(1, 1), Charges(), NOTHING)
    tokens = {
        str(number): TokenFee.compute(fee, None, Quote(Fraction(1), (SourcePrice("Fixed", Fraction(1), 0, end),), 6))
        for number, end in enumerate(fresh_until)
    }
    found = FeeQuote(fee, {**tokens, TOKEN: PriceUnavailable("none")})
    assert found.valid_until(now) == valid_until
