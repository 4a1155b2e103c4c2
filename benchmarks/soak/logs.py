"""What the service has logged: exceptions that nothing done to it explains are faults."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson

# What it means to a client that its connections are cut, or that Redis is away.
EXPLAINED = (
    "django.db.utils.OperationalError",
    "psycopg.OperationalError",
    "psycopg.errors.AdminShutdown",
    "redis.exceptions.ConnectionError",
    "redis.exceptions.TimeoutError",
)


def read(folder: Path) -> tuple[dict[str, int], list[str]]:
    """Return how often each exception was logged, and the faults: tracebacks, also of processes that crashed."""
    counts: Counter[str] = Counter()
    faults: dict[str, str] = {}
    for file in sorted(folder.glob("*.log")):
        for line in file.read_text(errors="replace").splitlines():
            entry = parse(line)
            if entry is None and line.startswith("Traceback"):
                faults.setdefault(file.name, f"{file.name} has a traceback that was not logged")
            if entry is None or "traceback" not in entry:
                continue
            name = exception_of(entry["traceback"])
            counts[name] += 1
            if name not in EXPLAINED:
                faults.setdefault(name, f"{file.name}: {entry['message']}\n{entry['traceback']}")
    return dict(counts), list(faults.values())


def parse(line: str) -> dict[str, Any] | None:
    """Return a line of the log; None for what Python or the web server wrote by itself."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None


def exception_of(traceback: str) -> str:
    """Return the class of the exception that a traceback is of: it stands first after the last frame."""
    frames = traceback.rpartition("Traceback (most recent call last):\n")[2]
    last = next((line for line in frames.splitlines() if not line.startswith(" ")), "unknown")
    return last.partition(":")[0]
