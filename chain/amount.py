from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Amount:
    """What is expected to be paid, and the maximum."""

    expected: Fraction | int = 0
    maximum: Fraction | int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.expected + other.expected, self.maximum + other.maximum)

    def __bool__(self) -> bool:
        return self.maximum != 0


NOTHING = Amount()
