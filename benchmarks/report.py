"""The table of an area: printed, and written to `results/AREA.md`."""

import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from relayer_service import __version__

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("figure", "value", "held against", "bound", "", "medians")
LINE = "{:9} {:52} {:>12}  {:34} {:17} {:7} {}"
PACKAGES = {"django": "Django", "drf": "djangorestframework", "granian": "granian", "gunicorn": "gunicorn"}


class Failed(Exception):
    """Why a comparison is void: answers that differ, errors, a server that is missing."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a value, what it is held against, and what it was computed from."""

    figure: str
    value: float
    unit: str
    against: str
    at_least: float | None = None
    at_most: float | None = None
    goal: float | None = None
    # The medians behind the value.
    beside: dict[str, float] = field(default_factory=dict)

    @property
    def bound(self) -> str:
        if self.at_least is None and self.at_most is None:
            return ""
        text = f">= {self.at_least:g}" if self.at_most is None else f"<= {self.at_most:g}"
        return text if self.goal is None else f"{text}, goal {self.goal:g}"

    @property
    def met(self) -> bool | None:
        """Whether the bound holds, or None where there is none."""
        if self.at_least is None and self.at_most is None:
            return None
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def as_dict(self) -> dict[str, Any]:
        names = ("figure", "value", "unit", "against", "beside")
        return {name: asdict(self)[name] for name in names} | {"bound": self.bound, "met": self.met}


def medians(rounds: Mapping[str, Iterable[float]], digits: int | None = None) -> dict[str, float]:
    """Return the median of the rounds of each, rounded if so many digits are wanted."""
    found = {name: statistics.median(values) for name, values in rounds.items()}
    return found if digits is None else {name: round(value, digits) for name, value in found.items()}


def circumstances(postgresql: str) -> dict[str, Any]:
    """Return where, when and with what a run measures."""
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=RESULTS.parent, capture_output=True, text=True
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()},
        "versions": {
            "service": __version__,
            "revision": done.stdout.strip() or "unknown",
            "python": platform.python_version(),
            "postgresql": postgresql,
            **{name: version(package) for name, package in PACKAGES.items()},
        },
    }


def write(run: dict[str, Any], areas: dict[str, dict[str, Any]]) -> None:
    """Replace the tables of the areas that were measured; the others stay, with the date of their own run."""
    RESULTS.mkdir(exist_ok=True)
    for name, found in areas.items():
        rows = [COLUMNS, ("---",) * len(COLUMNS), *map(cells, found["rows"])]
        lines = [f"# {name}", "", ". ".join(headings(run)), "", *(f"| {' | '.join(row)} |" for row in rows)]
        (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")


def headings(run: dict[str, Any]) -> list[str]:
    machine, versions = run["machine"], run["versions"]
    return [
        f"{run['date']}, {machine['cpus']} CPUs ({machine['architecture']}, {machine['system']})",
        ", ".join(f"{name} {number}" for name, number in versions.items()),
    ]


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    verdict = {None: "", True: "met", False: "MISSED"}[row["met"]]
    beside = ", ".join(f"{name} {number:,g}" for name, number in row["beside"].items())
    return row["figure"], f"{row['value']:,g} {row['unit']}", row["against"], row["bound"], verdict, beside


def table(run: dict[str, Any], areas: dict[str, dict[str, Any]]) -> str:
    """Return the rows of all areas as one table."""
    rows = [("area", *COLUMNS)]
    rows += [(area, *cells(row)) for area, found in areas.items() for row in found["rows"]]
    lines = [*headings(run), "", *(LINE.format(*row) for row in rows)]
    lines += ["", "; ".join(f"{area}: {found['seconds']} s" for area, found in areas.items())]
    return "\n".join(lines)
