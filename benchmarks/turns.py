"""Short turns, and many of them, so that what disturbs a machine affects all that are compared alike."""

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


def in_turns(measurements: Mapping[Key, Callable[[], Found]], rounds: int) -> dict[Key, list[Found]]:
    """Measure A B C A B C; the first round is a warm-up and does not count."""
    found: dict[Key, list[Found]] = {key: [] for key in measurements}
    for number in range(1 + rounds):
        for key, measure in measurements.items():
            value = measure()
            if number:
                found[key].append(value)
    return found
