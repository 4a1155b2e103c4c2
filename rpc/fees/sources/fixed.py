from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from relayers.chain.attempts import Call
from rpc.fees.sources.base import NoPrice, Source, SourcePrice


class Fixed(Source):
    """A rate that staff have set, for as long as they trust it."""

    def calls(self) -> Sequence[Call]:
        return []

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.source.rate_set_at is None or self.source.max_age_seconds is None:
            raise NoPrice("has no rate")
        set_at = int(self.source.rate_set_at.timestamp())
        fresh_until = set_at + self.source.max_age_seconds
        if now > fresh_until:
            raise NoPrice("is stale: it was set longer ago than its age limit")
        return SourcePrice(self.name, Fraction(self.source.rate), set_at, fresh_until)
