"""The price of a token, from sources that are checked against each other."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

from chain.contracts import Unreadable, contract_call, read_call
from chain.readings import ChainReading
from relayer_service.amounts import BASIS_POINTS
from rpc import errors
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.fees.tokens import Token

logger = logging.getLogger(__name__)

ONLY_PAIRS = "pairs alone cannot set a price: add a source of another kind"


@dataclass(frozen=True)
class Quote:
    """The price of a token: tokens for one native coin, the price of each source, and the token's decimals."""

    rate: Fraction
    sources: tuple[SourcePrice, ...]
    decimals: int


def price_reading(token: Token) -> ChainReading:
    """Return the reading of a token's price, and of its decimals while they are unknown.

    Its value is a `Quote` or an error, so that a token without a price does not fail the others in the batch. An
    error is never cached.
    """
    if has_only_pairs(token.sources):
        return ChainReading([], lambda _: errors.PriceUnavailable(f"{token}: {ONLY_PAIRS}."))
    calls = [contract_call(token.address, "decimals()")] if token.decimals is None else []
    of_sources = [source.calls() for source in token.sources]
    calls += [call for each in of_sources for call in each]
    counts = [len(each) for each in of_sources]

    def read(answers: list[Any]) -> Quote | errors.RpcError:
        try:
            return _read(token, counts, answers)
        except errors.RpcError as error:
            return error.with_traceback(None)
        except Exception:
            logger.exception("Cannot read the price of %s", token)
            return errors.InternalError()

    def seconds(value: Quote | errors.RpcError) -> float:
        if isinstance(value, errors.RpcError):
            return 0
        return max(0, min(price.fresh_until for price in value.sources) - time.time())

    # A change of any of these invalidates the cached price. A price that needs no call is not cached.
    key = (token.pk, token.address, token.max_spread_bps, token.sources) if calls else None
    return ChainReading(calls, read, key, seconds)


def _read(token: Token, counts: Sequence[int], answers: Sequence[Any]) -> Quote:
    now, rest = int(time.time()), iter(answers)
    decimals = _read_decimals(next(rest)) if token.decimals is None else token.decimals
    prices = []
    for source, count in zip(token.sources, counts, strict=True):
        try:
            prices.append(source.price([next(rest) for _ in range(count)], decimals, now))
        except NoPrice as reason:
            raise errors.PriceUnavailable(f"{token}: the source “{source.name}” {reason}.") from None
    return Quote(agreed_rate(token, [price.rate for price in prices]), tuple(prices), decimals)


def has_only_pairs(sources: Collection[Source | type[Source]]) -> bool:
    """Return whether no source counts by itself: anyone can move the price of a pair within a block."""
    return bool(sources) and not any(source.stands_alone for source in sources)


def agreed_rate(token: Token, rates: Sequence[Fraction]) -> Fraction:
    """Return the median of the rates; raise `PriceUnavailable` if they differ by more than the token allows."""
    if not rates:
        raise errors.PriceUnavailable(f"{token}: it has no price source.")
    lowest, highest = min(rates), max(rates)
    if (highest - lowest) * BASIS_POINTS > lowest * token.max_spread_bps:
        raise errors.PriceUnavailable(f"{token}: its sources differ by more than {token.max_spread_bps} basis points.")
    return median(rates)


def _read_decimals(answer: Any) -> int:
    try:
        (decimals,) = read_call(answer, ["uint8"])
    except Unreadable:
        raise errors.InsufficientData("The token's contract did not report its decimals.") from None
    return int(decimals)
