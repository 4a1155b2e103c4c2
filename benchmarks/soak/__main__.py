"""`make soak`: call the service for minutes while its processes are killed and its servers are taken away."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.load import Failed
from benchmarks.soak import report
from benchmarks.soak.chaos import Pace
from benchmarks.soak.client_sending import ClientSoak
from benchmarks.soak.running import Soak
from benchmarks.soak.sending import LiarAloneSoak, LiarSoak, SendingSoak
from benchmarks.soak.service import ServiceSoak
from tests import servers

FOLDER = Path(__file__).parent.parent
MODES: dict[str, tuple[type[Soak], Path]] = {
    "service": (ServiceSoak, FOLDER / "soak.json"),
    "transactions": (LiarSoak, FOLDER / "soak_transactions.json"),
    "client": (ClientSoak, FOLDER / "soak_client.json"),
}
# Of the mode `transactions`: where the node is that lies to be paid. The soak without one writes nothing.
LIARS: dict[str, tuple[type[Soak], Path | None]] = {
    "beside": MODES["transactions"],
    "alone": (LiarAloneSoak, FOLDER / "soak_liar_alone.json"),
    "none": (SendingSoak, None),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=MODES, default="service", help="what is called")
    parser.add_argument("--liar", choices=LIARS, default="beside", help="with --mode transactions: the lying node")
    parser.add_argument("--seconds", type=int, default=480, help="for which the service is called")
    parser.add_argument("--fast", action="store_true", help="a smoke run of seconds, which writes nothing")
    parser.add_argument("--patience", type=int, default=1, help="by which each limit of time is multiplied")
    options = parser.parse_args(arguments)
    pace = Pace(options.seconds, patience=options.patience)
    if options.fast:
        pace = Pace(16, kill_seconds=4, cut_seconds=6, redis_seconds=2, patience=options.patience)
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("The soak hangs: it took longer than it may."))
    # The files of secrets are for this user alone.
    os.umask(0o077)
    folder = Path(tempfile.mkdtemp(prefix="relayer-soak-"))
    soak, file = LIARS[options.liar] if options.mode == "transactions" else MODES[options.mode]
    signal.alarm(pace.seconds + soak.beside_seconds * pace.patience)
    try:
        with ExitStack() as stack:
            results = soak(pace, folder, stack).results()
    except (Failed, servers.Unavailable) as reason:
        print(f"The soak is void: {reason}", file=sys.stderr)
        return 1
    report.print_results(results)
    if file and not options.fast:
        file.write_text(json.dumps(results, indent=2) + "\n")
        print(f"\nWritten to benchmarks/{file.name} after {results['seconds']} s.")
    if results["faults"]:
        print(f"The logs are in {folder}.")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
