"""How much memory each process holds over its life, and how fast that grows."""

import statistics
from collections import defaultdict
from typing import Any

from benchmarks.soak.proc import resident_kilobytes

SAMPLE_SECONDS = 5
# A process that has been watched for so long is warm: one that still grows faster leaks.
WARM_SECONDS = 300
LEAK_KILOBYTES_PER_MINUTE = 5_000


# Half of them are two.
MIN_SAMPLES = 3


class Memory:
    def __init__(self) -> None:
        self.samples: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)

    def sample(self, role: str, pid: int, now: float) -> None:
        """Record what a process holds, unless it has ended meanwhile."""
        if resident := resident_kilobytes(pid):
            self.samples[role, pid].append((now, resident))

    def lines(self, min_seconds: float) -> list[dict[str, Any]]:
        """Return a line for each process that lived long enough, and was read often enough for a slope."""
        return [
            {
                "process": role,
                "seconds": round(samples[-1][0] - samples[0][0]),
                "first_megabytes": round(samples[0][1] / 1024, 1),
                "last_megabytes": round(samples[-1][1] / 1024, 1),
                "slope_kilobytes_per_minute": round(slope_per_minute(samples)),
                "each_megabytes": [round(resident / 1024, 1) for _, resident in samples],
            }
            for (role, _), samples in self.samples.items()
            if samples[-1][0] - samples[0][0] >= min_seconds and len(samples) >= MIN_SAMPLES
        ]


def leaks(lines: list[dict[str, Any]]) -> list[str]:
    """Return which of the processes that lived long grow faster than what they keep explains."""
    return [
        f"a {line['process']} grows by {line['slope_kilobytes_per_minute']:,} KB a minute"
        for line in lines
        if line["seconds"] >= WARM_SECONDS and line["slope_kilobytes_per_minute"] > LEAK_KILOBYTES_PER_MINUTE
    ]


def slope_per_minute(samples: list[tuple[float, float]]) -> float:
    """Return the growth in a minute by least squares over the second half: in the first a process warms up."""
    half = samples[len(samples) // 2 :]
    seconds, values = zip(*half, strict=True)
    return statistics.linear_regression(seconds, values).slope * 60
