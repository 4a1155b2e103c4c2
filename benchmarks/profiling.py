"""Where the service's time goes: its WSGI callable in this process, under cProfile."""

import cProfile
import json
import pstats
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks import wsgi
from benchmarks.resources import RESOURCES, SMALL, Figure, figures_of

# On a slow machine fewer requests tell as much.
MAX_SECONDS = 20

# The first that a file's path holds names the group its time is counted in.
GROUPS = {
    "/relayer_service/": "relayer_service",
    "/tokens/": "tokens",
    "/tests/": "the resource",
    "/rest_framework/": "rest_framework",
    "/django/db/": "django.db",
    "/django/": "django, other",
    "/csp/": "csp",
    "/whitenoise/": "whitenoise",
    "/prometheus_client/": "prometheus_client",
    "/psycopg_pool/": "psycopg_pool",
    "/psycopg/": "psycopg",
    "/psycopg_binary/": "psycopg",
    "/logging/": "logging",
}


def profile(figure: Figure, token: str, requests: int) -> dict[str, Any]:
    """Return the share of each group, and of the functions in which most time passes with all that they call."""

    def call() -> None:
        status, _ = wsgi.call("GET", figure.resource.path, token, query=figure.query.removeprefix("?"))
        assert status == "200 OK", status

    for _ in range(50):
        call()
    profiler = cProfile.Profile()
    profiler.enable()
    until, done = time.monotonic() + MAX_SECONDS, 0
    while done < requests and time.monotonic() < until:
        call()
        done += 1
    profiler.disable()
    return {"requests": done, **summary(pstats.Stats(profiler))}


def summary(stats: Any) -> dict[str, Any]:
    total = stats.total_tt
    groups: Counter[str] = Counter()
    for (file, _, _), (_, _, own, _, callers) in stats.stats.items():
        if file == "~" and callers:
            # A built-in's time is that of the files that call it.
            for (caller, _, _), (_, _, part, _) in callers.items():
                groups[group(caller)] += part
        else:
            groups[group(file)] += own
    functions = sorted(
        ((cumulative, name(key)) for key, (_, _, _, cumulative, _) in stats.stats.items() if key[0] != "~"),
        reverse=True,
    )
    return {
        "own_time_by_package": {key: round(own / total, 3) for key, own in groups.most_common(14)},
        "time_with_callees": {key: round(cumulative / total, 3) for cumulative, key in functions[:60]},
    }


def group(file: str) -> str:
    return next((label for part, label in GROUPS.items() if part in file), "other")


def name(key: tuple[str, int, str]) -> str:
    file, line, function = key
    path = Path(file)
    return f"{path.parent.name}/{path.name}:{line} {function}"


if __name__ == "__main__":
    # In a process of its own, whose log lines go where its starter wants them.
    first = figures_of(RESOURCES[0], SMALL)[0]
    token, requests = sys.argv[1:]
    print(json.dumps({"of": first.title, **profile(first, token, int(requests))}))
