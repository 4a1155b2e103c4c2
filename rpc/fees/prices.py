"""The price of a token: from its sources, checked against each other, and never guessed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, islice
from typing import Any

from relayer_service.amounts import BASIS_POINTS
from relayers.chain.contracts import Unreadable, contract_call, read_call
from relayers.chain.networks import Network
from relayers.chain.readings import Reading, block_seconds
from rpc import errors
from rpc.fees.sources import SOURCES
from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.tokens import Token
from rpc.models import FeeToken


@dataclass(frozen=True)
class Quote:
    """The price of a token: tokens for one native coin, what each source said, and the token's decimals."""

    rate: Fraction
    sources: tuple[SourcePrice, ...]
    decimals: int


def price_reading(token: Token, network: Network) -> Reading:
    """Return what has to be read for a token's price, and for its decimals while they are unknown."""
    asks_decimals = token.row.decimals is None
    sources = [SOURCES[row.kind](row, network) for row in token.sources]
    own_calls = [source.calls() for source in sources]
    calls = [contract_call(token.row.address, "decimals()")] if asks_decimals else []
    calls += chain.from_iterable(own_calls)

    def read(answers: list[Any]) -> Quote:
        now, rest = int(time.time()), iter(answers)
        decimals = _read_decimals(next(rest)) if asks_decimals else token.row.decimals
        assert decimals is not None
        prices = []
        for source, own in zip(sources, own_calls, strict=True):
            try:
                prices.append(source.price(list(islice(rest, len(own))), decimals, now))
            except NoPrice as reason:
                raise errors.PriceUnavailable(f"{token.row}: the source “{source.row}” {reason}.") from None
        return Quote(agreed_rate(token.row, [price.rate for price in prices]), tuple(prices), decimals)

    def seconds(quote: Quote) -> float:
        fresh_until = min(price.fresh_until for price in quote.sources)
        return min(block_seconds(network), max(0, fresh_until - time.time()))

    # A price that costs no call is not cached.
    return Reading(calls, read, token.price_inputs if calls else None, seconds)


def agreed_rate(token: FeeToken, rates: Sequence[Fraction]) -> Fraction:
    """Return the median of the rates; raise `PriceUnavailable` if they differ by more than they may."""
    if not rates:
        raise errors.PriceUnavailable(f"{token}: no source of its price is set.")
    lowest, highest = min(rates), max(rates)
    if (highest - lowest) * BASIS_POINTS > lowest * token.max_spread_bps:
        raise errors.PriceUnavailable(f"{token}: its sources differ by more than {token.max_spread_bps} basis points.")
    return statistics.median(rates)


def _read_decimals(answer: Any) -> int:
    try:
        (decimals,) = read_call(answer, ["uint8"])
    except Unreadable:
        raise errors.InsufficientData("The token's contract does not tell its decimals.") from None
    return int(decimals)
