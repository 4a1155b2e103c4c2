"""Single turns of a lane, without the threads of a worker."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from transactions.lanes.turn import NextTurn, Turn
from transactions.models import Lane

Result = TypeVar("Result")


class Inline:
    """Runs everything in the calling thread."""

    async def database(self, function: Callable[..., Result], *args: Any) -> Result:
        return function(*args)

    async def node(self, key: Hashable, function: Callable[..., Result], *args: Any) -> Result:
        return function(*args)

    async def signers(
        self, key: Hashable, functions: Sequence[Callable[[], Result]], *, is_local: bool = False
    ) -> list[Result | BaseException]:
        results: list[Result | BaseException] = []
        for function in functions:
            try:
                results.append(function())
            except Exception as error:  # the caller decides, as it does with threads
                results.append(error)
        return results


def take_turn(lane: Lane) -> NextTurn:
    """Take one turn in the calling thread."""
    coroutine = Turn(lane, Inline()).take()
    try:
        coroutine.send(None)
    except StopIteration as finished:
        next_turn: NextTurn = finished.value
        return next_turn
    raise AssertionError("an inline turn does not wait")
