from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from chain.attempts import Call
from chain.networks import Network
from rpc.models import FeeToken, PriceSource


class NoPrice(Exception):
    """Why a source gives no price, as the end of a sentence that begins with the source."""


@dataclass(frozen=True)
class SourcePrice:
    """The price of one source: tokens for one native coin, when it was set, and until when it counts (Unix time)."""

    name: str
    rate: Fraction
    updated_at: int
    fresh_until: int


@dataclass(frozen=True)
class Source(ABC):
    """One kind of price source: what to ask the chain, and what the answers mean."""

    # Whether it is a price without another kind beside it. What anyone can move within a block is not.
    stands_alone: ClassVar[bool] = True

    name: str

    @classmethod
    @abstractmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        """Return the source that staff have set up in a row."""

    @abstractmethod
    def calls(self) -> Sequence[Call]:
        """Return the calls whose answers hold the price."""

    @abstractmethod
    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        """Return the price of a token with these decimals; raise `NoPrice` if there is none that counts."""
