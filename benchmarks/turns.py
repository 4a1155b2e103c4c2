"""Short turns, and many of them, so that what disturbs a machine affects all that are compared alike."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


def in_turns(
    measurements: Mapping[Key, Callable[[], Found]], rounds: int, *, warm_up: bool = True
) -> dict[Key, list[Found]]:
    """Measure A B C A B C; the first round is a warm-up that does not count, where what is measured runs on."""
    found: dict[Key, list[Found]] = {key: [] for key in measurements}
    for number in range(rounds + warm_up):
        for key, measure in measurements.items():
            value = measure()
            if number or not warm_up:
                found[key].append(value)
    return found
