"""The metrics of a worker: who may read them, and what it has counted."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from relayer_service.background import tasks
from relayer_service.health.views import start_metrics_server
from tests.concurrency import PATIENCE_SECONDS
from tests.conftest import Log
from tests.relayer_service.observability.test_metrics import samples


@contextmanager
def metrics_server() -> Iterator[int]:
    server = start_metrics_server("127.0.0.1", 0)
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def read(port: int, path: str = "/metrics") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_worker_answers_the_networks_that_may_read_metrics(settings: Any) -> None:
    settings.METRICS_ALLOW = [ip_network("127.0.0.0/8")]
    with metrics_server() as port:
        status, text = read(port)
        assert status == 200
        assert "relayer_worker_last_poll_timestamp_seconds" in text
        assert read(port, "/")[0] == 404
    # The web processes read the database; and a worker has to be scraped while that is away.
    assert not [name for name in samples(text) if name.startswith(("relayer_ready", "relayer_relayers"))]


def test_a_worker_closes_the_connections_of_others(settings: Any) -> None:
    settings.METRICS_ALLOW = [ip_network("192.0.2.7/32")]
    with metrics_server() as port, pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        read(port)


def test_an_address_that_cannot_be_is_an_error_of_the_command(settings: Any) -> None:
    with metrics_server() as port, pytest.raises(CommandError, match=f"Cannot listen on 127.0.0.1:{port}: "):
        call_command("worker", f"--metrics=127.0.0.1:{port}")
    for text in ("9100", "127.0.0.1:", "127.0.0.1:http"):
        with pytest.raises(CommandError, match="is not in the format HOST:PORT"):
            call_command("worker", f"--metrics={text}")


def test_tasks_are_counted_with_their_time_and_their_failures(settings: Any, db: None, log: Log) -> None:
    settings.METRICS_ALLOW = [ip_network("127.0.0.0/8")]

    @tasks.task()
    def fall_over(why: str) -> None:
        raise OSError(28, why) if why else ZeroDivisionError

    try:
        with metrics_server() as port:
            before = samples(read(port)[1])
            for why in ("No space left on device", ""):
                tasks.queue.execute(fall_over.s(why))
            after = samples(read(port)[1])
    finally:
        tasks.queue._registry.unregister(fall_over.task_class)
    for name in ("relayer_task_failures_total{task=fall_over}", "relayer_task_duration_seconds_count{task=fall_over}"):
        assert after[name] - before.get(name, 0) == 2
    # A full disk fails every task: its traceback says nothing, that of a bug does.
    full, bug = [line for line in log.parsed() if line["logger"] == "huey"]
    assert full["message"].endswith("OSError: [Errno 28] No space left on device")
    assert "traceback" not in full
    assert "ZeroDivisionError" in bug["traceback"]
