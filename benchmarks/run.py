"""`make bench`: measure the service by area, each in a process of its own, and print one table."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import databases, load, report
from benchmarks.areas import AREAS
from tests import servers
from tests.processes import stop


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"of {', '.join(AREAS)}; all without one")
    parser.add_argument("--fast", action="store_true", help="a look within 3 minutes: few rows, nothing is written")
    options = parser.parse_args(arguments)
    if unknown := set(options.areas) - set(AREAS):
        parser.error(f"there is no area {', '.join(sorted(unknown))}; there are {', '.join(AREAS)}")
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    try:
        with servers.postgresql() as server, tempfile.TemporaryDirectory() as folder:
            run, found = measure(options.areas or AREAS, server, Path(folder), fast=options.fast)
    except servers.Unavailable as reason:
        print(f"The comparison is void: {reason}", file=sys.stderr)
        return 1
    print(f"\n{report.table(run, found)}\n\nAfter {time.monotonic() - started:.0f} s.")
    if not options.fast:
        report.write(run, found)
        print(f"Written to benchmarks/{report.RESULTS.name}/.")
    return 0 if len(found) == len(options.areas or AREAS) else 1


def measure(
    areas: Sequence[str], server: str, folder: Path, *, fast: bool
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the circumstances of the run, and what each area found whose comparison holds."""
    with psycopg.connect(server) as connection:
        version = connection.info.parameter_status("server_version") or ""
    run, found = report.circumstances(version) | {"generator": load.generator_name()}, {}
    bench = databases.prepare(server, folder, fast=fast)
    for area in areas:
        print(f"{area} ...", flush=True)
        rows = folder / f"{area}.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.areas", area, bench.as_json(), str(rows)], cwd=servers.PROJECT
        )
        try:
            process.wait()
        finally:
            stop(process)
        if process.returncode == 0:
            found[area] = json.loads(rows.read_text())
    return run, found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
