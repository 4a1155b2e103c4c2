"""Probes: functions that may fail or hang, run side by side with one deadline for all of them."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from django.db import connections

from relayer_service.storage.databases import is_unavailable

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class ProbeFailed(Exception):
    """Why a probe failed, in one line."""


class Probes(Generic[Result]):
    """Runs probes, and logs when one begins to fail and when it works again, not each time in between.

    A probe that hangs holds one thread, however often it is asked for: until it ends, it has failed.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._running: dict[str, Future[Result]] = {}
        # By name, why it fails.
        self.failures: dict[str, BaseException] = {}

    def run(self, probes: Mapping[str, Callable[[], Result]], seconds: float) -> dict[str, Result]:
        """Return the results by name, without those of probes that failed or did not end in time."""
        with self._lock:
            for name, probe in probes.items():
                if name not in self._running or self._running[name].done():
                    self._running[name] = start(probe)
            futures = {name: self._running[name] for name in probes}
        wait(futures.values(), seconds)
        return {name: future.result() for name, future in futures.items() if self._has_worked(name, future)}

    def _has_worked(self, name: str, future: Future[Result]) -> bool:
        error = future.exception() if future.done() else ProbeFailed("it did not answer in time")
        with self._lock:
            changed = (error is not None) != (name in self.failures)
            if error is None:
                self.failures.pop(name, None)
            else:
                self.failures[name] = error
        if changed and error is None:
            logger.warning("%s %s works again", self._what, name)
        elif changed:
            expected = isinstance(error, ProbeFailed) or is_unavailable(error)
            logger.error("%s %s failed: %s", self._what, name, error, exc_info=None if expected else error)
        return error is None

    def forget(self) -> None:
        """Forget what fails, for tests."""
        self.failures.clear()


def start(function: Callable[[], Result]) -> Future[Result]:
    """Run a function in a daemon thread, which does not keep the process from ending."""
    future: Future[Result] = Future()
    threading.Thread(target=run, args=[function, future], name="probe", daemon=True).start()
    return future


def run(function: Callable[[], Result], future: Future[Result]) -> None:
    try:
        result = function()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        connections.close_all()
