"""`make test`: run the suite once on SQLite and once on PostgreSQL, with the servers that it needs."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack
from urllib.parse import urlsplit, urlunsplit

from tests import servers

NO_TESTS = 5


def main(arguments: list[str]) -> int:
    failed: list[str] = []
    # Ended from outside, it still stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        redis_url = start(stack, servers.redis(), failed)
        postgresql_url = start(stack, servers.postgresql(), failed)
        # Both at once, as much of a test is waiting; the output of the second follows that of the first.
        runs = [Run(stack, "SQLite", arguments, "", redis_url)]
        if postgresql_url:
            runs.append(Run(stack, "PostgreSQL", arguments, postgresql_url, redis_url))
        failed += [run.engine for run in runs if not run.passed()]
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


class Run:
    """The suite on one engine, in a process, a folder and a Redis database of its own."""

    def __init__(
        self, stack: ExitStack, engine: str, arguments: list[str], database_url: str, redis_url: str | None
    ) -> None:
        self.engine = engine
        self.output = None
        environment = os.environ | {
            "DATABASE_URL": database_url,
            "DATA_DIR": stack.enter_context(tempfile.TemporaryDirectory(prefix="relayer-tests-")),
            "TEST_REDIS_URL": redis_url or "",
        }
        if database_url:
            self.output = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  # the stack closes it
            environment["TEST_ONLY_DATABASE"] = "true"
            if redis_url:
                environment["TEST_REDIS_URL"] = urlunsplit(urlsplit(redis_url)._replace(path="/1"))
        command = [sys.executable, "-m", "pytest", *arguments]
        self.process = subprocess.Popen(command, env=environment, stdout=self.output, stderr=self.output)
        stack.callback(self.process.terminate)

    def passed(self) -> bool:
        if self.output is None:
            print(f"\n===== on {self.engine} =====", flush=True)
        code = self.process.wait()
        if self.output is not None:
            print(f"\n===== on {self.engine} =====", flush=True)
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        # With an argument that names tests without a database, the second run has none.
        return code == 0 or (self.output is not None and code == NO_TESTS)


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
