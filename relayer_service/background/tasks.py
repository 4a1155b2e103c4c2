"""Background work: tasks, periodic work that runs once across all workers, and the worker itself.

A task is only a push. The work is a row in the database with the time at which it is due (`storage/leases.py`), and a
periodic sweep finds due rows. So lost, duplicate and interrupted tasks do no harm, and any queue will do.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, InterfaceError, close_old_connections, transaction
from django.utils.module_loading import autodiscover_modules
from huey.consumer import Consumer, Scheduler
from huey.consumer import Worker as WorkerThread
from huey.exceptions import HueyException

from relayer_service.audit import actors
from relayer_service.audit.actors import Actor, ActorKind
from relayer_service.background.queues import create_queue
from relayer_service.database.access import is_unavailable, release_connection, require_room
from relayer_service.models import (
    AuditEntry,
    EncryptionKey,
    IdempotentRequest,
    PeriodicRun,
    SignInAddress,
    WorkerProcess,
)
from relayer_service.observability import metrics
from relayer_service.observability.logs import request_id
from relayer_service.storage import counting

logger = logging.getLogger(__name__)

# Modules in the names of queued tasks, where they differ: workers of the last release share the queue in an upgrade.
QUEUED_MODULES = {__name__: "relayer_service.ops.tasks"}
HEARTBEAT = "heartbeat"
HEARTBEAT_SECONDS = 10
# Polling interval of a queue that cannot wake its workers, and the pause after a failure of the queue.
POLL_SECONDS = 0.2
BROKEN_SECONDS = 2
# Time for a stopping worker to finish its tasks: longer than one attempt at a webhook or a node, and shorter than the
# stop timeouts in `deploy`.
STOP_SECONDS = 25

SCHEDULER, THREAD = "scheduler", "thread"
# systemd takes the first as the end of the startup, and each as a heartbeat.
MESSAGE = b"READY=1\nWATCHDOG=1"


class Watchdog:
    """Notifies systemd or touches a file whenever both the scheduler and a thread have taken a turn since the last."""

    def __init__(self) -> None:
        self.beat_file: Path | None = None
        self._waiting_for = {SCHEDULER, THREAD}
        self._lock = threading.Lock()

    def record_turn(self, part: str) -> None:
        with self._lock:
            self._waiting_for.discard(part)
            if self._waiting_for:
                return
            self._waiting_for = {SCHEDULER, THREAD}
        try:
            if self.beat_file is not None:
                self.beat_file.touch()
            if address := os.environ.get("NOTIFY_SOCKET"):
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
                    # systemd writes the null byte of an abstract socket address as an @.
                    notifier.sendto(MESSAGE, "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            logger.exception("Cannot notify the supervisor of the worker")


queue = create_queue(settings.TASK_QUEUE_URL)
task = queue.task
watchdog = Watchdog()


class OutageFilter(logging.Filter):
    """Drops the traceback of errors of an unavailable database or a full disk, which recur with every task."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError) or is_unavailable(error):
            record.msg, record.args = f"{record.getMessage()} {type(error).__name__}: {error}", None
            record.exc_info = record.exc_text = None
        return True


logging.getLogger("huey").addFilter(OutageFilter())


def prepare_queue() -> None:
    if not hasattr(queue.storage, "initialize_schema"):
        return
    try:
        queue.storage.initialize_schema()
    except psycopg.errors.UniqueViolation:
        # Another worker has created them concurrently: the second attempt finds them.
        queue.storage.initialize_schema()


def push(function: Any, *args: Any) -> None:
    """Queue a task when the transaction commits. A failure is only logged, as the sweep finds the due row."""
    transaction.on_commit(lambda: queue.enqueue(function.s(*args)), robust=True)


def queue_depth() -> dict[str, int]:
    return {"waiting": queue.pending_count(), "scheduled": queue.scheduled_count()}


_intervals: dict[str, int] = {}


def periodic_intervals() -> dict[str, int]:
    """Return the interval in seconds of all periodic work, by name."""
    autodiscover_modules("tasks")
    return _intervals


def periodic(seconds: int) -> Callable[[Callable[[], None]], Any]:
    """Run a function once in each slot of this length, however many workers there are.

    Every worker queues it; the first to claim the slot in the database runs it. Tasks do not expire, as that would
    depend on the clock of each worker.
    """

    def decorator(function: Callable[[], None]) -> Any:
        name = function.__name__
        _intervals[name] = seconds
        last_turn = -1

        def is_due(now: datetime) -> bool:
            nonlocal last_turn
            turn = int(time.monotonic()) // seconds
            due, last_turn = turn != last_turn, turn
            return due

        @wraps(function)
        def run() -> None:
            claim = PeriodicRun.objects.claim(name, seconds)
            if claim is not None:
                logger.debug("Periodic work starts", extra={"fields": {"name": name, "slot": claim.slot}})
                with claim.recorded():
                    function()

        run.__module__ = QUEUED_MODULES.get(run.__module__, run.__module__)
        return queue.periodic_task(is_due, name=name)(run)

    return decorator


@queue.pre_execute()
def begin(task: Any) -> None:
    actor = Actor(ActorKind.WORKER, task.name, request_id=f"task-{task.id}")
    request_id.set(actor.request_id)
    actors.finder.set(lambda: actor)
    task.started_at = time.monotonic()
    close_old_connections()


@queue.post_execute()
def end(task: Any, value: Any, exception: BaseException | None) -> None:
    metrics.observe_task(task.name, time.monotonic() - task.started_at, failed=exception is not None)
    close_old_connections()
    request_id.set("-")
    actors.finder.set(Actor)


class SecondsScheduler(Scheduler):
    """Checks for periodic work every second, not every minute."""

    periodic_task_seconds = 1

    def loop(self, now: datetime | None = None) -> None:
        super().loop(now)
        watchdog.record_turn(SCHEDULER)


class TurnTakingThread(WorkerThread):
    """Waits for a task only while no other thread does, so that an idle worker has one connection to the queue."""

    turn = threading.Lock()
    unknown_tasks: ClassVar[set[str]] = set()

    def loop(self, now: datetime | None = None) -> None:
        with self.turn:
            watchdog.record_turn(THREAD)
            metrics.WORKER_POLLED.set_to_current_time()
            task = None if self.stop_flag.is_set() else self._next_task()
        if task is not None:
            try:
                self.huey.execute(task, now)
            except Exception:
                # Huey logs exceptions of the task itself; this is a failure of the queue.
                logger.exception("Cannot run task %s", task.id)

    def _next_task(self) -> Any:
        try:
            task = self.huey.dequeue()
        except HueyException as error:
            # Queued by a newer release, before a rollback or in an upgrade. Its row stays due, and its sweep finds it.
            if str(error) not in self.unknown_tasks:
                self.unknown_tasks.add(str(error))
                logger.warning("Skipped a task of another release: %s", error)
            return None
        except Exception:
            logger.exception("Cannot read the next task from the queue")
            self.stop_flag.wait(BROKEN_SECONDS)
            return None
        if task is None and not self.huey.storage.blocking:
            self.stop_flag.wait(POLL_SECONDS)
        return task


def process_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


class Worker(Consumer):
    scheduler_class = SecondsScheduler
    worker_class = TurnTakingThread

    def __init__(self) -> None:
        super().__init__(
            queue,
            workers=settings.WORKER_THREADS,
            graceful_signal="TERM",
            shutdown_timeout=STOP_SECONDS,
            health_check_interval=HEARTBEAT_SECONDS,
        )

    def run(self) -> None:
        super().run()
        with logged_outage("delete the row of this worker"):
            WorkerProcess.objects.filter(name=process_name()).delete()

    def check_worker_health(self) -> bool:
        with logged_outage("write the heartbeat of this worker"):
            WorkerProcess.objects.beat(process_name())
        return bool(super().check_worker_health())


@contextmanager
def logged_outage(action: str) -> Iterator[None]:
    """Log a failure of the database: the worker continues without it."""
    try:
        yield
    except (DatabaseError, InterfaceError) as error:
        logger.warning("Cannot %s: %s", action, type(error).__name__)
    finally:
        release_connection()


@periodic(seconds=HEARTBEAT_SECONDS)
def heartbeat() -> None:
    """Prove that tasks run and that the disk has room, and store a canary of the encryption key."""
    require_room()
    EncryptionKey.objects.ensure_canary()


@periodic(seconds=60)
def fold_counts() -> None:
    counting.fold()


@periodic(seconds=60 * 60)
def clear_sessions() -> None:
    call_command("clearsessions")


@periodic(seconds=60 * 60)
def prune_audit_log() -> None:
    AuditEntry.objects.prune()


@periodic(seconds=60 * 60)
def prune_idempotency_keys() -> None:
    IdempotentRequest.objects.prune()


@periodic(seconds=60 * 60)
def prune_sign_in_addresses() -> None:
    SignInAddress.objects.prune()
