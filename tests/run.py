"""`make test`: run the suite once on SQLite and once on PostgreSQL, with the servers that it needs."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack
from itertools import product
from urllib.parse import urlsplit, urlunsplit

from tests import servers

NO_TESTS = 5
SLOW = ["tests/browser", "tests/integration"]


def main(arguments: list[str]) -> int:
    failed: list[str] = []
    # Ended from outside, it still stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        redis_url = start(stack, servers.redis(), failed)
        postgresql_url = start(stack, servers.postgresql(), failed)
        engines = {"SQLite": "", **({"PostgreSQL": postgresql_url} if postgresql_url else {})}
        # All at once, as much of a test is waiting; the output of each follows that of the one before.
        runs = [
            Run(stack, number, engine, part, url, redis_url)
            for number, (part, (engine, url)) in enumerate(product(parts(arguments), engines.items()))
        ]
        failed += [run.name for run in runs if not run.passed()]
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


def parts(arguments: list[str]) -> list[list[str]]:
    """Split the whole suite into what waits for browsers and processes, and the rest."""
    if arguments:
        return [arguments]
    return [["tests", *(f"--ignore={path}" for path in SLOW)], SLOW]


class Run:
    """Tests on one engine, in a process, a folder and databases of its own."""

    def __init__(
        self,
        stack: ExitStack,
        number: int,
        engine: str,
        arguments: list[str],
        database_url: str,
        redis_url: str | None,
    ) -> None:
        self.name = f"{engine}, {' '.join(arguments)}"
        self.output = stack.enter_context(tempfile.TemporaryFile()) if number else None  # noqa: SIM115  # the stack closes it
        environment = os.environ | {
            "DATABASE_URL": in_database(database_url, f"part{number}") if database_url else "",
            "DATA_DIR": stack.enter_context(tempfile.TemporaryDirectory(prefix="relayer-tests-")),
            "TEST_REDIS_URL": in_database(redis_url, str(number)) if redis_url else "",
        }
        if database_url:
            environment["TEST_ONLY_DATABASE"] = "true"
        command = [sys.executable, "-m", "pytest", *arguments]
        self.process = subprocess.Popen(command, env=environment, stdout=self.output, stderr=self.output)
        stack.callback(self.process.terminate)

    def passed(self) -> bool:
        if self.output is None:
            print(f"\n===== on {self.name} =====", flush=True)
        code = self.process.wait()
        if self.output is not None:
            print(f"\n===== on {self.name} =====", flush=True)
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        # With an argument that names tests without a database, the second run has none.
        return code == 0 or (self.output is not None and code == NO_TESTS)


def in_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def start(stack: ExitStack, server: AbstractContextManager[str], failed: list[str]) -> str | None:
    """Start a server; where this machine cannot, say so, which with CI=true is a failure."""
    try:
        return stack.enter_context(server)
    except servers.Unavailable as reason:
        print(f"SKIPPED {reason}")
        if os.environ.get("CI") == "true":
            failed.append(str(reason))
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
