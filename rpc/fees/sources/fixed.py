from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from relayer_service.amounts import parse_rate
from relayers.chain.attempts import Call
from rpc.fees.sources.base import NoPrice, Source, SourcePrice


class Fixed(Source):
    """A rate that staff have set, for as long as they trust it."""

    def calls(self) -> Sequence[Call]:
        return []

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.row.rate_set_at is None or self.row.max_age_seconds is None:
            raise NoPrice("has no rate")
        set_at = int(self.row.rate_set_at.timestamp())
        fresh_until = set_at + self.row.max_age_seconds
        if now > fresh_until:
            raise NoPrice("is stale: it was set longer ago than its age limit")
        return SourcePrice(str(self.row), Fraction(parse_rate(self.row.rate_text)), set_at, fresh_until)
