from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Self

from chain.networks import Network
from chain.nodes.attempts import Call
from relayer_service.amounts import parse_rate
from rpc.fees.sources.base import NoPrice, Source, SourcePrice
from rpc.models import FeeToken, PriceSource


@dataclass(frozen=True)
class Fixed(Source):
    """A rate set by staff, valid up to its age limit."""

    rate_text: str
    rate_set_at: datetime | None
    max_age_seconds: int | None

    @classmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        return cls(str(row), row.rate_text, row.rate_set_at, row.max_age_seconds)

    def calls(self) -> Sequence[Call]:
        return []

    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        if self.rate_set_at is None or self.max_age_seconds is None:
            raise NoPrice("has no rate")
        set_at = int(self.rate_set_at.timestamp())
        fresh_until = set_at + self.max_age_seconds
        if now > fresh_until:
            raise NoPrice("is stale: its rate is older than its age limit")
        return SourcePrice(self.name, Fraction(parse_rate(self.rate_text)), set_at, fresh_until)
