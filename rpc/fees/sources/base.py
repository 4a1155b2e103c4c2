from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from relayers.chain.attempts import Call
from relayers.chain.networks import Network
from rpc.models import FeeToken, PriceSource


class NoPrice(Exception):
    """Why a source gives no price, as the end of a sentence that begins with the source."""


@dataclass(frozen=True)
class SourcePrice:
    """What one source says: tokens for one native coin, when that was so, and until when it counts (in Unix time)."""

    name: str
    rate: Fraction
    updated_at: int
    fresh_until: int


class Source(ABC):
    """One kind of source: what to ask the chain, and what the answers say."""

    def __init__(self, source: PriceSource, token: FeeToken, network: Network) -> None:
        self.source = source
        self.token = token
        self.network = network
        self.name = str(source.get_kind_display())

    @abstractmethod
    def calls(self) -> Sequence[Call]:
        """Give the calls whose answers tell the price."""

    @abstractmethod
    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        """Read the price of a token with these decimals; raise `NoPrice` where there is none that counts."""
