"""What a scenario is, and how one is searched."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tests.model.search import Model, Result, search

# Makes the model of a scenario with some of its rules.
Build = Callable[[Collection[str]], Model[Any]]


@dataclass(frozen=True)
class Scenario:
    what: str
    build: Build
    rules: tuple[str, ...] = ()
    # Rules that are not decided, for what the decided ones leave open.
    proposed: tuple[str, ...] = ()
    # The invariants that no rule of the service alone can keep here.
    remains: frozenset[str] = frozenset()

    def search(self, *, without: str = "", proposed: bool = True, until: str = "") -> Result:
        """Search with all rules, or all but one."""
        rules = self.rules + (self.proposed if proposed else ())
        return search(self.build([rule for rule in rules if rule != without]), until=until)
