"""Measure one area in this process, and write its rows to a file."""

import importlib
import json
import signal
import sys
import time
from pathlib import Path

from benchmarks.databases import Bench
from benchmarks.report import Failed
from tests.servers import Unavailable


def main(area: str, bench: str, file: str) -> int:
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    started = time.monotonic()
    try:
        rows = importlib.import_module(f"benchmarks.areas.{area}").measure(Bench.from_json(bench))
    except (Failed, Unavailable) as reason:
        print(f"{area}: the comparison is void: {reason}", file=sys.stderr)
        return 1
    found = {"seconds": round(time.monotonic() - started), "rows": [{"area": area, **row.as_dict()} for row in rows]}
    Path(file).write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
