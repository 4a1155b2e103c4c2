"""Processes that are forked before anything is opened, and wait for their orders."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
Orders = dict[str, Any]


class Child:
    """A process that runs a function once it gets its orders. It does not outlive its parent."""

    def __init__(self, work: Callable[[Orders], None]) -> None:
        orders, self._orders = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._orders)
            _run(work, orders)
        os.close(orders)
        self._status: int | None = None

    def go(self, **orders: Any) -> None:
        os.write(self._orders, json.dumps(orders).encode())

    @property
    def is_running(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is None

    @property
    def was_killed(self) -> bool:
        return not self.is_running and os.WTERMSIG(self._status or 0) == signal.SIGKILL

    @property
    def exit_code(self) -> int:
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)

    def end(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            _, self._status = os.waitpid(self.pid, 0)
        if self._orders >= 0:
            os.close(self._orders)
            self._orders = -1


def _run(work: Callable[[Orders], None], orders: int) -> NoReturn:
    """Wait for orders and follow them, in a forked process."""
    code = 1
    try:
        end_with_parent()
        line = os.read(orders, 65_536)
        if line:
            work(json.loads(line))
            code = 0
    except BaseException:  # the process ends here, whatever it is
        traceback.print_exc()
    os._exit(code)


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def crash_at(point: str) -> None:
    """Let this process end at a step, as the environment variable does for one that is started with it."""
    from transactions.records import crash_points

    os.environ["CRASH_AT"] = point
    importlib.reload(crash_points)
