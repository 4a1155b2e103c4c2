"""`make test` and `make test-all`: run the suite on SQLite and on PostgreSQL, with the servers that it needs.

python -m tests.run              what is quick, on PostgreSQL only what can differ there
python -m tests.run --all        everything, on both
python -m tests.run PATH ...     what is named, long or not
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tests import servers

NO_TESTS = 5
# Processes for each engine: more than cores, as much of a test is waiting.
PROCESSES = {"SQLite": 4, "PostgreSQL": 3}
# Folders that have half of the tests.
HALF = ["tests/client", "tests/contract", "tests/notifications", "tests/relayers", "tests/transactions"]
# Redis has 16 databases: so many for the processes of each engine.
REDIS_DATABASES = 8
SLOWEST = 10
FAILURE_CHARACTERS = 1500


def main(arguments: list[str]) -> int:
    everything = "--all" in arguments
    named = [argument for argument in arguments if argument != "--all"]
    on_both_engines = everything or bool(named)
    if not on_both_engines:
        named = ["-m", "not long"]
    started = time.monotonic()
    failed: list[str] = []
    # Ended from outside, it still stops the servers that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Each of these processes starts others, which load the same modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not (servers.PROJECT / "tests/transactions/__pycache__").exists():
        compile_tests()
    with ExitStack() as stack:
        redis_url = start(stack, servers.redis(), failed)
        postgresql_url = start(stack, servers.postgresql(durable=False), failed)
        common = {
            "TEST_ALL": "true" if everything else "",
            "TEST_BOTH_ENGINES": "true" if on_both_engines else "",
        }
        # Both at once; the output of the second follows that of the first.
        runs = [Run(stack, "SQLite", named, common | on_redis(redis_url, 0))]
        if postgresql_url:
            database = {"DATABASE_URL": postgresql_url, "TEST_ONLY_DATABASE": "true"}
            output = stack.enter_context(tempfile.TemporaryFile())
            second = common | on_redis(redis_url, REDIS_DATABASES) | database
            runs.append(Run(stack, "PostgreSQL", named, second, output))
        codes = {run.engine: run.wait() for run in runs}
        # With an argument that names tests without a database, or about one engine, the other run has none.
        passed = {0, NO_TESTS} if 0 in codes.values() else {0}
        failed += [engine for engine, code in codes.items() if code not in passed]
        summarise(runs)
        report_failures(runs)
    print(f"{time.monotonic() - started:.0f} s in all")
    if failed:
        print(f"Failed: {', '.join(failed)}")
    return 1 if failed else 0


def compile_tests() -> None:
    """Compile the tests of a fresh clone once: otherwise each process does, which takes half a minute of a core."""
    halves = (HALF, [f"--ignore={folder}" for folder in HALF])
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq"]
    for process in [subprocess.Popen([*command, *half], stdout=subprocess.DEVNULL) for half in halves]:
        process.wait()


def on_redis(url: str | None, database: int) -> dict[str, str]:
    return {"TEST_REDIS_URL": urlunsplit(urlsplit(url)._replace(path=f"/{database}")) if url else ""}


class Run:
    """The suite on one engine, in processes, folders and databases of its own."""

    def __init__(
        self, stack: ExitStack, engine: str, named: list[str], environment: dict[str, str], output: Any = None
    ) -> None:
        self.engine, self.output = engine, output
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relayer-tests-")))
        self.report = folder / "report.xml"
        spread = ["--numprocesses", str(PROCESSES[engine]), "--no-loadscope-reorder"]
        command = [sys.executable, "-m", "pytest", "-q", *spread, f"--junit-xml={self.report}", *named]
        env = os.environ | {"DATABASE_URL": "", "TEST_ONLY_DATABASE": "", "DATA_DIR": str(folder)} | environment
        self.process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        stack.callback(self.process.terminate)

    def wait(self) -> int:
        """Return the exit code, once the output is printed."""
        if self.output is not None:
            self.process.wait()
        print(f"\n===== on {self.engine} =====", flush=True)
        code = self.process.wait()
        if self.output is not None:
            self.output.seek(0)
            shutil.copyfileobj(self.output, sys.stdout.buffer)
            sys.stdout.flush()
        return code

    def cases(self) -> list[ElementTree.Element]:
        return list(ElementTree.parse(self.report).iter("testcase")) if self.report.exists() else []


def summarise(runs: list[Run]) -> None:
    """Print the slowest tests and modules of all runs, and what was skipped."""
    cases = [(float(case.get("time", 0)), run.engine, case) for run in runs for case in run.cases()]
    print(f"\nThe slowest of {len(cases)} tests:")
    for seconds, engine, case in sorted(cases, key=lambda item: -item[0])[:SLOWEST]:
        print(f"{seconds:7.1f} s  {engine}  {name(case)}")
    modules: defaultdict[str, float] = defaultdict(float)
    for seconds, engine, case in cases:
        modules[f"{case.get('classname')} ({engine})"] += seconds
    slowest = sorted(modules.items(), key=lambda item: -item[1])[:SLOWEST]
    print("The slowest modules:", ", ".join(f"{module} {seconds:.0f} s" for module, seconds in slowest))
    skipped = [(engine, case, reason) for _, engine, case in cases for reason in case.iter("skipped")]
    print(f"Skipped: {len(skipped)}")
    for engine, case, reason in skipped:
        print(f"  {engine}  {name(case)}: {reason.get('message')}")


def report_failures(runs: list[Run]) -> None:
    """Print the end of each failure once more: a long output is often kept from its end."""
    for run in runs:
        for case in run.cases():
            for failure in [*case.iter("failure"), *case.iter("error")]:
                print(f"\nFAILED on {run.engine}: {name(case)}\n{(failure.text or '')[-FAILURE_CHARACTERS:]}")


def name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


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
