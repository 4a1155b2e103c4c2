"""Probes: functions that may fail or hang, run concurrently with one deadline."""

import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

from django.db import connections

from relayer_service.database.access import is_unavailable

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class ProbeFailed(Exception): ...


class ProbeTimedOut(ProbeFailed): ...


class Probes(Generic[Result]):
    """Runs probes, and logs when one starts to fail or recovers. A hanging probe has failed, and is not run again."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._running: dict[str, Future[Result]] = {}
        self.failures: dict[str, BaseException] = {}

    def run(self, probes: Mapping[str, Callable[[], Result]], seconds: float) -> dict[str, Result]:
        """Return the results by name, except for probes that failed or timed out."""
        with self._lock:
            for name, probe in probes.items():
                if name not in self._running or self._running[name].done():
                    self._running[name] = start(probe)
            futures = {name: self._running[name] for name in probes}
        wait(futures.values(), seconds)
        return {name: future.result() for name, future in futures.items() if self._has_worked(name, future)}

    def _has_worked(self, name: str, future: Future[Result]) -> bool:
        error = future.exception() if future.done() else ProbeTimedOut("timed out")
        with self._lock:
            changed = (error is not None) != (name in self.failures)
            if error is None:
                self.failures.pop(name, None)
            else:
                self.failures[name] = error
        if changed and error is None:
            logger.warning("%s %s has recovered", self._what, name)
        elif changed:
            expected = isinstance(error, ProbeFailed) or is_unavailable(error)
            logger.error("%s %s failed: %s", self._what, name, error, exc_info=None if expected else error)
        return error is None


def start(function: Callable[[], Result]) -> Future[Result]:
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        finally:
            connections.close_all()

    threading.Thread(target=run, name="probe", daemon=True).start()
    return future
