"""Background work with real workers: on each queue, killed, stopped and many at once."""

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from relayer_service.background import tasks
from relayer_service.background.queues import background, create_queue
from relayer_service.models import PeriodicRun
from tests import processes
from tests.concurrency import PATIENCE_SECONDS, in_threads, wait_until
from tests.forked_workers import Source, Worker
from tests.sample.models import Job
from tests.sample.tasks import LEASE, do_job, sweep_jobs
from tests.servers import free_port

StartWorker = Callable[..., Worker]

# Each queue once: which database the rows are in makes no difference to it.
QUEUES = ["postgresql"] if settings.DATABASE_URL.startswith("postgres") else ["sqlite", "redis"]


@pytest.fixture(params=QUEUES)
def queue_url(
    request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """An empty queue of one kind, which this process and its workers share."""
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
    elif request.param == "postgresql":
        url = processes.database_url()
    else:
        url = f"sqlite:{tmp_path}/tasks.sqlite3"
    with closing(use_queue(url, monkeypatch)) as storage:
        tasks.prepare_queue()
        storage.flush_all()
        yield url
        storage.flush_all()


def use_queue(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    storage = create_queue(url).storage
    monkeypatch.setattr(tasks.queue, "storage", storage)
    return storage


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def source(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """What all workers of these tests are forked from, with few connections for their threads."""
    source = Source(tmp_path_factory.mktemp("workers") / "log", DATABASE_POOL_SIZE="4", LOG_LEVEL="DEBUG")
    yield source
    source.end()


@pytest.fixture
def start_worker(source: Source, queue_url: str, logs: Path) -> Iterator[StartWorker]:
    started: list[Worker] = []

    def start(threads: int = 4) -> Worker:
        log = logs / f"worker-{len(started)}"
        started.append(source.fork(log, TASK_QUEUE_URL=queue_url, WORKER_THREADS=threads))
        return started[-1]

    yield start
    for worker in started:
        worker.kill()


def create_jobs(count: int, seconds: float = 0) -> list[int]:
    now = timezone.now()
    return [Job.objects.create(due_at=now, seconds=seconds).pk for _ in range(count)]


def push_jobs(ids: list[int]) -> None:
    for job_id in ids:
        tasks.push(do_job, job_id)


def let_jobs_end() -> None:
    Job.objects.update(seconds=0)


def times_done() -> list[int]:
    return list(Job.objects.order_by("pk").values_list("done", flat=True))


def running() -> int:
    return Job.objects.filter(lease__isnull=False).count()


def queued_jobs() -> list[int]:
    background.flush()
    return [task.args[0] for task in tasks.queue.pending() if task.name == "do_job"]


@pytest.mark.long
def test_one_worker_runs_many_tasks_at_once_on_few_connections(start_worker: StartWorker) -> None:
    push_jobs(create_jobs(16, seconds=PATIENCE_SECONDS))
    start_worker(threads=17)
    wait_until(lambda: running() == 16)
    let_jobs_end()
    wait_until(lambda: 0 not in times_done())


@pytest.mark.long
def test_what_a_killed_worker_left_is_done_once_by_another(start_worker: StartWorker) -> None:
    cut_off = create_jobs(2, seconds=PATIENCE_SECONDS)
    push_jobs(cut_off)
    victim = start_worker(threads=2)
    wait_until(lambda: running() == 2)
    start_worker()
    # Each is pushed twice, and a sweep pushes it again.
    push_jobs(create_jobs(20) * 2)
    victim.kill()
    assert Job.objects.filter(pk__in=cut_off, done=0, lease__isnull=False).count() == 2
    let_jobs_end()
    wait_until(lambda: 0 not in times_done())
    wait_until(lambda: not queued_jobs())
    assert times_done() == [1] * 22


@pytest.mark.long
def test_a_stopped_worker_ends_its_task_and_leaves_the_queue_to_the_next(
    start_worker: StartWorker, logs: Path
) -> None:
    first, second, third = create_jobs(3, seconds=PATIENCE_SECONDS)
    push_jobs([first])
    worker = start_worker(threads=1)
    wait_until(lambda: running() == 1)
    push_jobs([second, third])
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: "Shutting down gracefully" in (logs / "worker-0").read_text())
    let_jobs_end()
    assert worker.wait() == 0
    assert times_done() == [1, 0, 0]
    assert queued_jobs() == [second, third]
    start_worker(threads=1)
    wait_until(lambda: times_done() == [1, 1, 1])


@pytest.mark.long
def test_done_work_leaves_nothing_in_the_queue(start_worker: StartWorker) -> None:
    push_jobs(create_jobs(5))
    start_worker()
    wait_until(lambda: 0 not in times_done())
    wait_until(lambda: tasks.queue_depth() == {"waiting": 0, "scheduled": 0})
    assert tasks.queue.result_count() == 0


@pytest.mark.long
def test_work_for_later_outlives_the_worker_and_is_not_done_early(start_worker: StartWorker) -> None:
    Job.objects.create(due_at=timezone.now() + timedelta(days=3))
    worker = start_worker()
    wait_until(PeriodicRun.objects.filter(name="sweep_jobs", finished_at__isnull=False).exists)
    worker.kill()
    assert times_done() == [0]
    # Three days pass.
    Job.objects.update(due_at=timezone.now())
    start_worker()
    wait_until(lambda: times_done() == [1])


@pytest.mark.long
def test_periodic_work_runs_once_a_slot_across_three_workers(start_worker: StartWorker, logs: Path) -> None:
    workers = [start_worker() for _ in range(3)]
    files = [logs / f"worker-{number}" for number in range(3)]
    wait_until(lambda: all(file.exists() and "Enqueueing periodic task" in file.read_text() for file in files))
    newest = PeriodicRun.objects.filter(name="sweep_jobs").values_list("slot", flat=True)
    wait_until(newest.exists)
    all_up = newest.get()
    wait_until(lambda: newest.get() >= all_up + 3)
    for worker in workers:
        worker.stop()
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    slots = [line["slot"] for line in lines if line.get("name") == "sweep_jobs" and "slot" in line]
    assert len(slots) > 1
    assert len(slots) == len(set(slots))


def test_a_task_pushed_in_a_transaction_that_is_rolled_back_is_never_queued(queue_url: str) -> None:
    with transaction.atomic():
        push_jobs(create_jobs(1))
        transaction.set_rollback(True)
    assert tasks.queue_depth() == {"waiting": 0, "scheduled": 0}


def test_a_task_pushed_in_a_transaction_is_queued_when_it_is_committed(queue_url: str) -> None:
    with transaction.atomic():
        ids = create_jobs(1)
        push_jobs(ids)
        assert queued_jobs() == []
    assert queued_jobs() == ids


@pytest.mark.parametrize(
    "url",
    ["redis://127.0.0.1:{port}/0", "postgresql://127.0.0.1:{port}/none", "sqlite:/dev/null/tasks.sqlite3"],
    ids=["redis", "postgresql", "sqlite"],
)
def test_a_queue_that_is_down_does_not_fail_the_caller(
    url: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_queue(url.format(port=free_port()), monkeypatch)
    with transaction.atomic():
        push_jobs(create_jobs(1))
    background.flush()
    assert times_done() == [0]
    said = [record.levelname for record in caplog.records if record.name == "relayer_service.background.queues"]
    assert said == ["ERROR"]
    with pytest.raises((redis.ConnectionError, psycopg.OperationalError, sqlite3.OperationalError)):
        tasks.queue_depth()


def test_a_sweep_pushes_what_is_due_and_nothing_else(queue_url: str) -> None:
    due = create_jobs(2)
    Job.objects.create(due_at=timezone.now() + timedelta(hours=1))
    Job.objects.create(due_at=None)
    sweep_jobs.call_local()
    assert queued_jobs() == due


@pytest.mark.django_db(transaction=True)
def test_no_row_is_claimed_by_two_callers() -> None:
    ids = create_jobs(60)

    def claim_all() -> list[int]:
        claimed: list[int] = []
        while rows := Job.objects.all().claim(3, LEASE):
            claimed += [row.pk for row in rows]
        return claimed

    claimed = [job_id for result in in_threads(*[claim_all] * 6) for job_id in result]
    assert sorted(claimed) == ids


def test_workers_that_start_at_once_make_the_tables_of_the_queue_together(queue_url: str) -> None:
    for _ in range(5):
        if hasattr(tasks.queue.storage, "initialize_schema"):
            with tasks.queue.storage.db(commit=True) as cursor:
                for table in ("kv", "schedule", "task", "counter"):
                    cursor.execute(f"DROP TABLE IF EXISTS {'huey_' if 'postgres' in queue_url else ''}{table}")
        # Each thread has a connection of its own, as each worker has.
        in_threads(*[tasks.prepare_queue] * 6)
        assert tasks.queue.pending_count() == 0


@pytest.mark.django_db(transaction=True)
def test_a_slot_of_periodic_work_is_claimed_by_one_caller() -> None:
    # So long that the slot does not end meanwhile.
    claims = in_threads(*[lambda: PeriodicRun.objects.claim("sweep", 10**9)] * 8)
    assert [claim.slot for claim in claims if claim] == [1]


@pytest.mark.django_db
def test_a_lease_that_was_lost_releases_nothing() -> None:
    create_jobs(1)
    (lost,) = Job.objects.all().claim(1, timedelta(seconds=-1))
    (held,) = Job.objects.all().claim(1, LEASE)
    assert lost.release(None, done=5) is False
    job = Job.objects.get()
    assert (job.done, job.lease, job.due_at) == (0, held.lease, held.due_at)
    assert held.release(None, done=1) is True
    job.refresh_from_db()
    assert (job.done, job.lease, job.due_at) == (1, None, None)


@pytest.mark.django_db
def test_each_row_is_held_only_under_the_lease_that_it_was_claimed_with() -> None:
    create_jobs(4)
    (lost,) = Job.objects.all().claim(1, timedelta(seconds=-1))
    (one,) = Job.objects.exclude(pk=lost.pk).claim(1, LEASE)
    others = Job.objects.all().claim(2, LEASE)
    never_claimed = Job.objects.exclude(pk__in=[lost.pk, one.pk, *(job.pk for job in others)]).get()
    # One that was lost is held by the lease of the others now.
    assert lost.pk in {job.pk for job in others}
    rows = [lost, one, *(job for job in others if job.pk != lost.pk), never_claimed]
    assert {job.pk for job in Job.objects.held(rows)} == {job.pk for job in rows} - {lost.pk, never_claimed.pk}
    assert not Job.objects.held([])


@pytest.mark.django_db
def test_a_row_that_is_leased_is_not_claimed_until_the_lease_ends() -> None:
    create_jobs(1)
    assert len(Job.objects.all().claim(10, LEASE)) == 1
    assert Job.objects.all().claim(10, LEASE) == []
