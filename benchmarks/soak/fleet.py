"""The processes of a small deployment, supervised as one would: two web processes, two workers, Redis."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from benchmarks.soak.proc import by_age, children
from tests.processes import stop
from tests.servers import PROJECT, Unavailable, free_port, wait_for_port

WEB_COMMAND = [sys.executable, "-m", "relayer_service.server"]
WORKER_COMMAND = [sys.executable, "manage.py", "worker"]
WEB_PROCESSES = WORKERS = 2
STOP_SECONDS = 30


class Redis:
    """A Redis that keeps nothing, at the same port each time it is started."""

    def __init__(self, folder: Path) -> None:
        executable = shutil.which("redis-server")
        if executable is None:
            raise Unavailable("Redis: there is no redis-server")
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._command = [executable, "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--save", "", "--dir", str(folder)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_for_port(self.port, process=self._process)

    def stop(self) -> None:
        stop(self._process)


class Fleet:
    """The web server and the workers, each with its log in a folder."""

    def __init__(self, environment: dict[str, str], logs: Path, stack: ExitStack) -> None:
        self._environment = os.environ | environment
        self._logs = logs
        self.port = int(environment["PORT"])
        self.web = self._start("web", WEB_COMMAND)
        self.workers = [self._start_worker(number) for number in range(WORKERS)]
        stack.callback(self.stop)
        wait_for_port(self.port, process=self.web)

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log(name) as log:
            return subprocess.Popen(command, env=self._environment, cwd=PROJECT, stdout=log, stderr=log)

    def _start_worker(self, number: int) -> subprocess.Popen[bytes]:
        beat = self._beat_file(number)
        beat.unlink(missing_ok=True)
        return self._start(f"worker-{number + 1}", [*WORKER_COMMAND, "--beat", str(beat)])

    def _beat_file(self, number: int) -> Path:
        return self._logs / f"worker-{number + 1}.beat"

    def _log(self, name: str) -> IO[bytes]:
        return (self._logs / f"{name}.log").open("ab")

    def web_processes(self) -> list[int]:
        """Return the processes that answer requests, the oldest first; the supervisor above them does not."""
        return by_age(children(self.web.pid))

    def worker_processes(self) -> list[int]:
        """Return the workers, the oldest first."""
        return by_age([worker.pid for worker in self.workers])

    def kill_web(self, pid: int) -> None:
        """Kill a web process; the web server itself starts another."""
        os.kill(pid, signal.SIGKILL)

    def kill_worker(self, pid: int) -> None:
        """Kill a worker and start another, as its supervisor would."""
        number = [worker.pid for worker in self.workers].index(pid)
        self.workers[number].kill()
        self.workers[number].wait()
        self.workers[number] = self._start_worker(number)

    def workers_are_up(self) -> bool:
        """Return whether each worker works since it was started; before, a signal would end it by itself."""
        return all(self._beat_file(number).exists() for number in range(WORKERS))

    def ended(self) -> list[str]:
        """Return which processes have ended that nobody has killed."""
        return [f"{name} has ended ({each.returncode})" for name, each in self._all() if each.poll() is not None]

    def stop(self, patience: int = 1) -> list[str]:
        """Stop all at once, as a deployment does; return which did not end well."""
        for _, process in self._all():
            process.terminate()
        faults = []
        for name, process in self._all():
            try:
                code = process.wait(STOP_SECONDS * patience)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                faults.append(f"{name} ended with {code} when it was stopped")
        return faults

    def _all(self) -> list[tuple[str, subprocess.Popen[bytes]]]:
        return [("the web server", self.web), *((f"worker {n + 1}", each) for n, each in enumerate(self.workers))]
