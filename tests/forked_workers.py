"""Start workers quickly: a process that has loaded everything forks one for each line that it reads.

A worker takes more than a second of a processor to load, and a test that kills one every second would measure that.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests import processes


class Workers:
    """So many workers at a time, of which the oldest can be killed and replaced."""

    def __init__(self, count: int, folder: Path, **environment: str) -> None:
        self._log = (folder / "workers.log").open("wb")
        self._source = subprocess.Popen(
            [sys.executable, "-m", "tests.forked_workers"],
            env=processes.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.running = [self._start() for _ in range(count)]
        self.kills = 0

    def _start(self) -> int:
        assert self._source.stdin
        assert self._source.stdout
        self._source.stdin.write(b"\n")
        self._source.stdin.flush()
        return int(self._source.stdout.readline())

    def kill_oldest(self) -> None:
        os.kill(self.running.pop(0), signal.SIGKILL)
        self.kills += 1
        self.running.append(self._start())

    def end(self) -> None:
        for pid in self.running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._source.communicate()
        self._log.close()


def main() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.utils.module_loading import autodiscover_modules

    autodiscover_modules("tasks")
    # The system takes the dead away.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            call_command("worker")
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
