"""The price of a token: from its sources, checked against each other, and never guessed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from relayer_service.amounts import BASIS_POINTS
from relayers.chain.contracts import Unreadable, contract_call, read_call
from relayers.chain.networks import Network
from relayers.chain.readings import Reading, block_seconds
from rpc import errors
from rpc.fees.sources.base import NoPrice, SourcePrice
from rpc.fees.tokens import Token


@dataclass(frozen=True)
class Quote:
    """The price of a token: tokens for one native coin, what each source said, and the token's decimals."""

    rate: Fraction
    sources: tuple[SourcePrice, ...]
    decimals: int


def price_reading(token: Token, network: Network) -> Reading:
    """Return what has to be read for a token's price, and for its decimals while they are unknown."""
    asks_decimals = token.decimals is None
    calls = [contract_call(token.address, "decimals()")] if asks_decimals else []
    counts = []
    for source in token.sources:
        own = source.calls()
        counts.append(len(own))
        calls += own

    def read(answers: list[Any]) -> Quote:
        now, rest = int(time.time()), iter(answers)
        decimals = _read_decimals(next(rest)) if asks_decimals else token.decimals
        assert decimals is not None
        prices = []
        for source, count in zip(token.sources, counts, strict=True):
            try:
                prices.append(source.price([next(rest) for _ in range(count)], decimals, now))
            except NoPrice as reason:
                raise errors.PriceUnavailable(f"{token}: the source “{source.name}” {reason}.") from None
        return Quote(agreed_rate(token, [price.rate for price in prices]), tuple(prices), decimals)

    def seconds(quote: Quote) -> float:
        fresh_until = min(price.fresh_until for price in quote.sources)
        return min(block_seconds(network), max(0, fresh_until - time.time()))

    # What the price depends on: where staff change one of these, the cached price no longer counts. A price that
    # costs no call is not cached.
    key = (token.pk, token.address, token.max_spread_bps, token.sources) if calls else None
    return Reading(calls, read, key, seconds, faults=(errors.RpcError,))


def agreed_rate(token: Token, rates: Sequence[Fraction]) -> Fraction:
    """Return the median of the rates; raise `PriceUnavailable` if they differ by more than they may."""
    if not rates:
        raise errors.PriceUnavailable(f"{token}: no source of its price is set.")
    lowest, highest = min(rates), max(rates)
    if (highest - lowest) * BASIS_POINTS > lowest * token.max_spread_bps:
        raise errors.PriceUnavailable(f"{token}: its sources differ by more than {token.max_spread_bps} basis points.")
    ordered, middle = sorted(rates), len(rates) // 2
    return ordered[middle] if len(rates) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _read_decimals(answer: Any) -> int:
    try:
        (decimals,) = read_call(answer, ["uint8"])
    except Unreadable:
        raise errors.InsufficientData("The token's contract does not tell its decimals.") from None
    return int(decimals)
