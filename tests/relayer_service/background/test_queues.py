"""Pushes to the task queue: no request waits for one, and a queue that hangs is left alone for a while."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.test import Client
from huey.storage import MemoryStorage

from relayer_service.background import tasks
from relayer_service.background.queues import MAX_WAITING, InBackground, background, create_queue
from relayer_service.database.caches import RETRY_SECONDS
from tests.concurrency import PATIENCE_SECONDS
from tests.relayer_service.api.test_throttling import silent_server
from tests.servers import PROJECT, free_port, wait_for_port
from tokens.tasks import record_use

CANNOT_WRITE = "Cannot write to the task queue ({}): work is delayed"


class Gated(MemoryStorage):
    """A queue in memory whose writes wait for a gate."""

    def __init__(self) -> None:
        super().__init__("tests")
        self.met, self.gate = threading.Event(), threading.Event()

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        self.met.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        super().enqueue(data, priority)


class GatedInBackground(InBackground, Gated): ...


@contextmanager
def redis_server(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a Redis of our own, which can be stopped; yield its URL and its process."""
    executable = shutil.which("redis-server")
    if executable is None:
        pytest.skip("there is no redis-server")
    port = free_port()
    command = [executable, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port, process=process)
        yield f"redis://127.0.0.1:{port}/0", process.pid
    finally:
        process.kill()
        process.wait()


def get(client: Client, token: str) -> int:
    return client.get("/api/v1/items", headers={"Authorization": f"Bearer {token}"}).status_code


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def test_a_request_is_answered_while_redis_hangs(
    client: Client, token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with redis_server(tmp_path) as (url, process):
        monkeypatch.setattr(tasks.queue, "storage", create_queue(url).storage)
        assert tasks.queue.pending_count() == 0
        os.kill(process, signal.SIGSTOP)
        assert get(client, token) == 200
        os.kill(process, signal.SIGCONT)
        background.flush()
        assert tasks.queue.pending_count() == 1
    # To wait for the queue would have ended in an error, after its timeout.
    assert said(caplog) == []


def test_a_hanging_queue_is_called_once_and_then_paused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_server() as server:
        storage = create_queue(f"redis://127.0.0.1:{server.port}/0").storage
        storage.pool.connection_kwargs["socket_timeout"] = 0.05
        monkeypatch.setattr(tasks.queue, "storage", storage)
        for number in range(3):
            record_use(number, 0.0)
        background.flush()
        record_use(3, 0.0)
        background.flush()
        assert server.connections() == 1
    assert said(caplog) == [CANNOT_WRITE.format("TimeoutError")]


def test_what_waits_for_a_queue_has_an_end_and_one_that_came_back_is_written_to_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = GatedInBackground()
    monkeypatch.setattr(tasks.queue, "storage", storage)
    record_use(0, 0.0)
    assert storage.met.wait(PATIENCE_SECONDS)
    for number in range(MAX_WAITING + 5):
        record_use(number, 0.0)
    assert said(caplog) == [CANNOT_WRITE.format("too many pushes are waiting")]
    storage.down_until = 0.0
    storage.gate.set()
    background.flush()
    assert storage.queue_size() == 1 + MAX_WAITING
    storage.flush_queue()
    now = time.monotonic()
    storage.down_until = now + RETRY_SECONDS
    record_use(1, 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: now + RETRY_SECONDS)
    record_use(2, 0.0)
    background.flush()
    assert [tasks.queue.deserialize_task(item).args[0] for item in storage.enqueued_items()] == [2]


PUSH_IN_TWO_PROCESSES = """
import os, sys, time
from relayer_service.background.queues import background

def push(name):
    time.sleep(0.05)
    os.write(1, name.encode())

background.submit(lambda: push("parent "))
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    background.submit(lambda: push("child "))
"""


def test_what_was_pushed_is_written_before_the_process_ends_also_after_a_fork() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PUSH_IN_TWO_PROCESSES]
    done = subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == ["child", "parent"]


def test_tasks_of_a_newer_release_cost_one_warning_and_no_pause(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    storage = MemoryStorage("tests")
    monkeypatch.setattr(tasks.queue, "storage", storage)
    for name in ("of_a_newer_release", "of_a_newer_release", "record_use"):
        message = tasks.queue._registry.create_message(record_use.s(1, 0.0))._replace(name=f"tokens.tasks.{name}")
        storage.enqueue(tasks.queue.serializer.serialize(message))
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda seconds: pytest.fail("it waits"))
    thread = tasks.TurnTakingThread(tasks.queue, stop, 0, 0, 1)
    found = [thread._next_task() for _ in range(3)]
    assert [task and task.name for task in found] == [None, None, "record_use"]
    (warning,) = caplog.records
    assert (warning.levelname, warning.getMessage()) == (
        "WARNING",
        "Skipped a task of another release: tokens.tasks.of_a_newer_release not found in TaskRegistry",
    )


def test_workers_of_the_last_release_find_tasks_under_the_same_names() -> None:
    tasks.periodic_intervals()
    names = {name for name in tasks.queue._registry._registry if not name.startswith("tests.")}
    assert names == {
        "incidents.tasks.prune_incidents",
        "incidents.tasks.send_alerts",
        "incidents.tasks.watch_causes",
        "notifications.tasks.count_deliveries",
        "notifications.tasks.deliver",
        "notifications.tasks.prune_deliveries",
        "notifications.tasks.report_silent_workers",
        "notifications.tasks.send_due_webhooks",
        "relayer_service.console.overview.incidents.prune_acknowledgements",
        "relayer_service.jobs.running.prune_jobs",
        "relayer_service.jobs.running.run_due_jobs",
        "relayer_service.jobs.running.run_job",
        "relayer_service.ops.tasks.clear_sessions",
        "relayer_service.ops.tasks.fold_counts",
        "relayer_service.ops.tasks.heartbeat",
        "relayer_service.ops.tasks.prune_audit_log",
        "relayer_service.ops.tasks.prune_idempotency_keys",
        "relayer_service.ops.tasks.prune_sign_in_addresses",
        "relayers.tasks.check_nodes",
        "relayers.tasks.check_relayers",
        "relayers.tasks.check_relayers_now",
        "relayers.tasks.prune_node_statistics",
        "rpc.tasks.prune_call_counts",
        "rpc.tasks.read_price_now",
        "rpc.tasks.read_prices",
        "tokens.tasks.announce_expiring_tokens",
        "tokens.tasks.prune_token_uses",
        "tokens.tasks.record_use",
        "transactions.tasks.prune_transactions",
        "transactions.tasks.release_charges",
        "transactions.tasks.top_up_relayers",
        "transactions.tasks.wake_due_lanes",
        "transactions.tasks.wake_lane",
    }
