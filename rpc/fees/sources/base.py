from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from chain.networks import Network
from chain.nodes.attempts import Call
from rpc.models import FeeToken, PriceSource


class NoPrice(Exception):
    """Why a source has no price, as the end of a sentence that starts with the source."""


@dataclass(frozen=True)
class SourcePrice:
    """The price of one source: tokens for one native coin, when it was set and when it expires (Unix time)."""

    name: str
    rate: Fraction
    updated_at: int
    fresh_until: int


@dataclass(frozen=True)
class Source(ABC):
    """A kind of price source: the calls to make, and the price from their answers."""

    # Whether it can be the only kind of a token: not if anyone can move the price within a block.
    stands_alone: ClassVar[bool] = True

    name: str

    @classmethod
    @abstractmethod
    def from_row(cls, row: PriceSource, token: FeeToken, network: Network) -> Self:
        """Return the source of a row."""

    @abstractmethod
    def calls(self) -> Sequence[Call]:
        """Return the calls whose answers contain the price."""

    @abstractmethod
    def price(self, answers: Sequence[Any], decimals: int, now: int) -> SourcePrice:
        """Return the price of a token with these decimals; raise `NoPrice` if there is no valid one."""
