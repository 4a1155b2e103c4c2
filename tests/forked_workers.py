"""Start workers, or single functions, quickly: a process that has loaded all forks one for each line that it reads.

A worker takes more than a second of a processor to load, and a test that kills one every second would measure that.
"""

import gc
import json
import os
import pkgutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests import processes

FORK, CALL, WAIT = "fork", "call", "wait"


class Source:
    """The process that forks; its environment is that of its workers."""

    def __init__(self, log: Path, **environment: str) -> None:
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_workers"],
            env=processes.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def fork(self, log: Path | None = None, **settings: Any) -> "Worker":
        """Start a worker with a log and settings of its own, among which can be the URL of its task queue."""
        return Worker(self, self.ask({"order": FORK, "log": str(log or ""), "settings": settings}))

    def call(self, function: str, crash_at: str = "") -> "Worker":
        """Call a function, named as `module:function`, in a process that ends with it, or at a step of sending."""
        return Worker(self, self.ask({"order": CALL, "function": function, "crash_at": crash_at}))

    def ask(self, order: dict[str, Any]) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()
        self._log.close()


@dataclass
class Worker:
    source: Source
    pid: int
    exit_code: int | None = None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Return the exit code, which for a killed one is the negated number of the signal."""
        if self.exit_code is None:
            self.exit_code = self.source.ask({"order": WAIT, "pid": self.pid})
        return self.exit_code

    def stop(self) -> int:
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self.exit_code is None:
            self.send_signal(signal.SIGKILL)
            self.wait()


class Workers:
    """So many workers at a time, of which the oldest can be killed and replaced."""

    def __init__(self, count: int, folder: Path, **environment: str) -> None:
        self._source = Source(folder / "workers.log", **environment)
        self.running = [self._source.fork() for _ in range(count)]
        self.kills = 0

    def kill_oldest(self) -> None:
        self.running.pop(0).kill()
        self.kills += 1
        self.running.append(self._source.fork())

    def end(self) -> None:
        for worker in self.running:
            worker.kill()
        self._source.end()


def main() -> None:
    import django

    django.setup()
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("tasks")
    # A worker collects garbage when it starts: without all of this, which it would look through and so copy.
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        if order["order"] == WAIT:
            # Until it is asked for, an ended process keeps its code and its id.
            _, status = os.waitpid(order["pid"], 0)
            print(os.waitstatus_to_exitcode(status), flush=True)
        elif order["order"] == CALL:
            print(fork(partial(call, order["function"], order["crash_at"])), flush=True)
        else:
            print(fork(partial(work, order["log"], order["settings"])), flush=True)


def fork(run: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run()
        code = 0
    except BaseException:  # the process ends here, whatever it is
        traceback.print_exc()
    finally:
        os._exit(code)


def call(function: str, point: str) -> None:
    from tests.chaos.children import crash_at

    crash_at(point)
    pkgutil.resolve_name(function)()


def work(log: str, changed: dict[str, Any]) -> None:
    from django.conf import settings
    from django.core.management import call_command

    from relayer_service.background import tasks
    from relayer_service.background.queues import create_queue

    if log:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(file, stream)
    for name, value in changed.items():
        setattr(settings, name, value)
    if "TASK_QUEUE_URL" in changed:
        tasks.queue.storage = create_queue(settings.TASK_QUEUE_URL).storage
    call_command("worker")


if __name__ == "__main__":
    main()
