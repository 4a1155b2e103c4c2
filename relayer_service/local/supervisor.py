"""The supervisor of `make run`: the parent of the web server and the worker."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from relayer_service.processes import signal_when_parent_dies

PROJECT = Path(__file__).resolve().parents[2]
# A process that ends is noticed at once; one that starts takes minutes on a busy machine.
START_SECONDS = 300
STOP_SECONDS = 30
# Restarting does not help a process that exits more often.
MAX_RESTARTS_PER_MINUTE = 5


class Supervisor:
    """Runs the web server and the worker, restarts processes that exit, and stops both on the first signal."""

    def __init__(self) -> None:
        self.stopping = False
        self.arguments = {"web": ["-m", "relayer_service.server"], "worker": ["manage.py", "worker"]}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: list[float] = []

    def run(self, announce: Callable[[], None]) -> int:
        """Run until a signal, and announce the service when it can answer; return the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._stop)
        # The web process writes to its end when it is ready, and answers once this end is closed: after the banner.
        gate, web_end = socket.socketpair()
        try:
            with gate:
                with web_end:
                    self._start("web", web_end.fileno())
                self._start("worker")
                is_up = self._comes_up(gate)
                if is_up:
                    announce()
            while is_up and not self.stopping and self._restart_dead():
                time.sleep(0.2)
        finally:
            self._end()
        return 0 if self.stopping else 1

    def _start(self, name: str, gate: int | None = None) -> None:
        # In its own session: Ctrl-C reaches only this process, which then stops the two in order.
        self.processes[name] = subprocess.Popen(
            [sys.executable, *self.arguments[name]],
            cwd=PROJECT,
            env=os.environ if gate is None else {**os.environ, "START_GATE": str(gate)},
            pass_fds=() if gate is None else (gate,),
            start_new_session=True,
            preexec_fn=lambda: signal_when_parent_dies(signal.SIGTERM),  # there is only one thread
        )

    def _stop(self, *_: object) -> None:
        self.stopping = True

    def _comes_up(self, gate: socket.socket) -> bool:
        deadline = time.monotonic() + START_SECONDS
        gate.setblocking(False)
        while not self.stopping:
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                problem = f"the {dead[0]} process ended" if dead else "the web process is not responding"
                print(f"Cannot start: {problem}; see the output above.", file=sys.stderr)
                return False
            with suppress(BlockingIOError):
                if gate.recv(1):
                    return True
            time.sleep(0.05)
        return False

    def _restart_dead(self) -> bool:
        """Restart processes that exited; return False after too many restarts."""
        for name, process in self.processes.items():
            if process.poll() is None or self.stopping:
                continue
            self.restarts = [moment for moment in self.restarts if moment > time.monotonic() - 60]
            self.restarts.append(time.monotonic())
            if len(self.restarts) > MAX_RESTARTS_PER_MINUTE:
                print(f"The {name} process keeps exiting: stopping.", file=sys.stderr)
                return False
            print(f"The {name} process exited ({process.returncode}): restarting it.", file=sys.stderr)
            kill_session(process)
            self._start(name)
        return True

    def _end(self) -> None:
        for process in self.processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self.processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            kill_session(process)


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill the children that a process left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
