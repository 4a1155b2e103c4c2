"""The price of a token: from its sources, checked against each other, and never guessed."""

import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from chain.contracts import Unreadable, contract_call, read_call
from chain.readings import ChainReading
from relayer_service.amounts import BASIS_POINTS
from rpc import errors
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.fees.tokens import Token

logger = logging.getLogger(__name__)

PAIRS_ALONE = "a pair's reserves alone are no price: a second source is needed, of another kind"


@dataclass(frozen=True)
class Quote:
    """The price of a token: tokens for one native coin, what each source said, and the token's decimals."""

    rate: Fraction
    sources: tuple[SourcePrice, ...]
    decimals: int


def price_reading(token: Token) -> ChainReading:
    """Return what has to be read for a token's price, and for its decimals while they are unknown.

    The value is a `Quote`, or the error that a caller gets in its place: of several tokens that are read in one batch,
    one that has no price does not fail the others. An error is never cached.
    """
    if has_pairs_alone(token.sources):
        return ChainReading([], lambda _: errors.PriceUnavailable(f"{token}: {PAIRS_ALONE}."))
    asks_decimals = token.decimals is None
    calls = [contract_call(token.address, "decimals()")] if asks_decimals else []
    counts = []
    for source in token.sources:
        own = source.calls()
        counts.append(len(own))
        calls += own

    def read(answers: list[Any]) -> Quote | errors.RpcError:
        try:
            return _read(token, counts, answers)
        except errors.RpcError as error:
            return error.with_traceback(None)
        except Exception:
            logger.exception("The price of %s cannot be read", token)
            return errors.InternalError()

    def seconds(value: Quote | errors.RpcError) -> float:
        if isinstance(value, errors.RpcError):
            return 0
        return max(0, min(price.fresh_until for price in value.sources) - time.time())

    # What the price depends on: where staff change one of these, the cached price no longer counts. A price that
    # costs no call is not cached.
    key = (token.pk, token.address, token.max_spread_bps, token.sources) if calls else None
    return ChainReading(calls, read, key, seconds)


def _read(token: Token, counts: Sequence[int], answers: Sequence[Any]) -> Quote:
    """Return the price from the answers to the calls of each source, so many each, after that to `decimals`."""
    now, rest = int(time.time()), iter(answers)
    decimals = _read_decimals(next(rest)) if token.decimals is None else token.decimals
    prices = []
    for source, count in zip(token.sources, counts, strict=True):
        try:
            prices.append(source.price([next(rest) for _ in range(count)], decimals, now))
        except NoPrice as reason:
            raise errors.PriceUnavailable(f"{token}: the source “{source.name}” {reason}.") from None
    return Quote(agreed_rate(token, [price.rate for price in prices]), tuple(prices), decimals)


def has_pairs_alone(sources: Collection[Source | type[Source]]) -> bool:
    """Return whether none of the sources is a price by itself: all pairs can be moved within the same block."""
    return bool(sources) and not any(source.stands_alone for source in sources)


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
