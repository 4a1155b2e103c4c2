"""Scenarios, and a breadth-first search of their models, so that every trace is a shortest one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)
# A step: its label, the state after it, and whether it needs neither a fault nor a decision of a caller.
Step = tuple[str, State, bool]
# Of each state but the first: the one before it and the label of the step.
Parents = list[tuple[int, str]]

MAX_STATES = 1_500_000
JAMMED = "I4"


class Model(Protocol[State]):
    def start(self) -> State: ...

    def steps(self, state: State) -> Iterator[Step[State]]: ...

    def broken(self, state: State) -> str | None:
        """Return the invariant that a state violates, by its two characters, and how."""

    def at_rest(self, state: State) -> bool:
        """Return whether everything accepted has a final status."""


@dataclass(frozen=True)
class Violation:
    message: str
    trace: list[str]


@dataclass(frozen=True)
class Result:
    states: int
    complete: bool
    # By invariant.
    violations: dict[str, Violation]


class Search(Generic[State]):
    """One search; nothing beyond a state that violates an invariant is visited."""

    def __init__(self, model: Model[State], max_states: int = MAX_STATES, *, until: str = "") -> None:
        self.model, self.max_states, self.until = model, max_states, until
        first = model.start()
        self.numbers: dict[State, int] = {first: 0}
        self.states = [first]
        self.parents: Parents = [(-1, "")]
        # Of each state, those from which a good step leads to it.
        self.sources: list[list[int]] = [[]]
        self.broken: set[int] = set()
        self.violations: dict[str, Violation] = {}
        self.complete = True

    def run(self) -> Result:
        queue = deque([0])
        while queue:
            number = queue.popleft()
            state = self.states[number]
            if message := self.model.broken(state):
                self.broken.add(number)
                self.violations.setdefault(message[:2], Violation(message, self.trace(number)))
                if self.until == message[:2]:
                    return Result(len(self.states), False, self.violations)
                continue
            for label, following, good in self.model.steps(state):
                known = self.numbers.get(following)
                if known is None:
                    if len(self.states) >= self.max_states:
                        self.complete = False
                        continue
                    known = self.add(following, number, label)
                    queue.append(known)
                if good:
                    self.sources[known].append(number)
        if self.complete:
            self.find_jam()
        return Result(len(self.states), self.complete, self.violations)

    def add(self, state: State, parent: int, label: str) -> int:
        number = self.numbers[state] = len(self.states)
        self.states.append(state)
        self.parents.append((parent, label))
        self.sources.append([])
        return number

    def find_jam(self) -> None:
        """Find the first state from which good steps cannot bring everything to rest."""
        alive = {number for number, state in enumerate(self.states) if self.model.at_rest(state)} | self.broken
        left = list(alive)
        while left:
            for source in self.sources[left.pop()]:
                if source not in alive:
                    alive.add(source)
                    left.append(source)
        jammed = next((number for number in range(len(self.states)) if number not in alive), None)
        if jammed is not None:
            message = f"{JAMMED}: jammed, no final status can be reached"
            self.violations[JAMMED] = Violation(message, self.trace(jammed))

    def trace(self, number: int) -> list[str]:
        labels = []
        while number:
            number, label = self.parents[number]
            labels.append(label)
        return labels[::-1]


def search(model: Model[State], *, until: str = "") -> Result:
    """Return what was found: all of it, or what comes before a violation of this invariant."""
    return Search(model, until=until).run()


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
