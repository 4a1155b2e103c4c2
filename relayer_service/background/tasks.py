"""Background work: a queue of pushes, and periodic work that runs once across all workers.

A task is only a push. The work itself is a row in the database with the time at which it is due (`leases.py`): a
task that is lost, doubled or cut off loses and doubles nothing, as a periodic sweep finds what is due. So any queue
will do, even one that forgets a task when its worker is killed.
"""

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import close_old_connections, transaction
from django.utils.module_loading import autodiscover_modules
from huey.consumer import Consumer, Scheduler
from huey.consumer import Worker as WorkerThread

from relayer_service.audit import actors
from relayer_service.audit.actors import Actor, ActorKind
from relayer_service.background.queues import create_queue
from relayer_service.background.watchdog import SCHEDULER, THREAD, Watchdog
from relayer_service.models import AuditEntry, EncryptionKey, IdempotentRequest, PeriodicRun
from relayer_service.observability import metrics
from relayer_service.observability.logs import request_id
from relayer_service.storage import counting
from relayer_service.storage.databases import is_unavailable, require_room

logger = logging.getLogger(__name__)

HEARTBEAT = "heartbeat"
HEARTBEAT_SECONDS = 10
# How often a queue that cannot wake its workers is polled, and how long one that failed is not called.
POLL_SECONDS = 0.2
BROKEN_SECONDS = 2
# How long a worker that is stopped may take to finish its tasks: longer than one attempt at a webhook or a node, and
# shorter than the stop timeouts in `deploy`.
STOP_SECONDS = 25


queue = create_queue(settings.TASK_QUEUE_URL)
task = queue.task
watchdog = Watchdog()


class OutageFilter(logging.Filter):
    """Drops the traceback of what failed as a database or a disk was away or full: it recurs with every task."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, OSError) or is_unavailable(error):
            record.msg, record.args = f"{record.getMessage()} {type(error).__name__}: {error}", None
            record.exc_info = record.exc_text = None
        return True


logging.getLogger("huey").addFilter(OutageFilter())


def prepare_queue() -> None:
    """Make the queue's tables, where it has any."""
    if not hasattr(queue.storage, "initialize_schema"):
        return
    try:
        queue.storage.initialize_schema()
    except psycopg.errors.UniqueViolation:
        # Of two workers that start at once PostgreSQL lets one make them; the other finds them there.
        queue.storage.initialize_schema()


def push(function: Any, *args: Any) -> None:
    """Queue a task when the current transaction is committed, without waiting for the queue.

    A queue that cannot be reached is only logged: the sweep finds the row that the task is for.
    """
    transaction.on_commit(lambda: queue.enqueue(function.s(*args)), robust=True)


def queue_depth() -> dict[str, int]:
    """Return how many tasks the queue holds, by kind."""
    return {"waiting": queue.pending_count(), "scheduled": queue.scheduled_count()}


_intervals: dict[str, int] = {}


def periodic_intervals() -> dict[str, int]:
    """Return the periodic work of all apps by name, with the seconds after which it runs again."""
    autodiscover_modules("tasks")
    return _intervals


def periodic(seconds: int) -> Callable[[Callable[[], None]], Any]:
    """Run a function once in each slot of so many seconds, however many workers there are.

    Every worker queues it; the first to claim the slot in the database runs it. Slots are the database's: a task has
    no time of expiry, which would be compared with the clock of whichever worker gets it.
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

        @queue.periodic_task(is_due, name=name)
        @wraps(function)
        def run() -> None:
            claim = PeriodicRun.objects.claim(name, seconds)
            if claim is not None:
                logger.debug("Periodic work begins", extra={"fields": {"name": name, "slot": claim.slot}})
                with claim.recorded():
                    function()

        return run

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
    """Look for periodic work every second instead of every minute."""

    periodic_task_seconds = 1

    def loop(self, now: datetime | None = None) -> None:
        super().loop(now)
        watchdog.record_turn(SCHEDULER)


class TurnTakingThread(WorkerThread):
    """Let one idle thread at a time wait for a task, whatever the number of threads.

    An idle worker then costs its queue one connection and one poll at a time, and a queue that is down costs one line
    in the log, not one for each thread.
    """

    turn = threading.Lock()

    def loop(self, now: datetime | None = None) -> None:
        with self.turn:
            watchdog.record_turn(THREAD)
            metrics.WORKER_POLLED.set_to_current_time()
            task = None if self.stop_flag.is_set() else self._next_task()
        if task is not None:
            self._run(task, now)

    def _run(self, task: Any, now: datetime | None) -> None:
        try:
            self.huey.execute(task, now)
        except Exception:
            # The queue logs what a task raises; this is a failure of the queue itself.
            logger.exception("Task %s could not be run", task.id)

    def _next_task(self) -> Any:
        try:
            task = self.huey.dequeue()
        except Exception:
            logger.exception("The next task cannot be read from the queue")
            self.stop_flag.wait(BROKEN_SECONDS)
            return None
        if task is None and not self.huey.storage.blocking:
            self.stop_flag.wait(POLL_SECONDS)
        return task


class Worker(Consumer):
    scheduler_class = SecondsScheduler
    worker_class = TurnTakingThread


@periodic(seconds=HEARTBEAT_SECONDS)
def heartbeat() -> None:
    """Show that tasks are queued and run and that the disk has room; keep a canary of the key in use."""
    require_room()
    EncryptionKey.objects.ensure_canary()


@periodic(seconds=60)
def fold_counts() -> None:
    """Keep the totals of lists quick to read."""
    counting.fold()


@periodic(seconds=60 * 60)
def clear_sessions() -> None:
    """Delete expired sessions of staff."""
    call_command("clearsessions")


@periodic(seconds=60 * 60)
def prune_audit_log() -> None:
    """Delete audit entries whose retention has ended."""
    AuditEntry.objects.prune()


@periodic(seconds=60 * 60)
def prune_idempotency_keys() -> None:
    """Delete idempotency keys that are no longer kept."""
    IdempotentRequest.objects.prune()
