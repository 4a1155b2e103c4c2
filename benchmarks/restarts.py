"""`python -m benchmarks.restarts`: restart web processes behind nginx in turn, under load, and count the answers."""

import argparse
import itertools
import signal
import sys
import tempfile
from pathlib import Path

from tests import servers, topology
from tests.topology import Load, call, read


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16, help="half of which read, while the others post")
    options = parser.parse_args(arguments)
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            servers.redis() as redis_url,
            topology.running(Path(folder), redis_url) as service,
            Load(service, *[read, call] * (options.clients // 2)) as load,
        ):
            load.wait_for_more()
            ports = itertools.cycle(service.ports)
            for number, port in enumerate(itertools.islice(ports, options.restarts), 1):
                # One after the other as fast as `systemctl restart` returns.
                service.replace_web(port)
                print(f"restart {number:>3}  {dict(load.answers)}", flush=True)
            load.wait_for_more()
    except servers.Unavailable as reason:
        print(f"The run is void: {reason}", file=sys.stderr)
        return 1
    failed = load.answers.total() - sum(load.answers[name] for name in topology.EXPECTED)
    print(f"{load.answers.total():,} requests, {failed} failed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
