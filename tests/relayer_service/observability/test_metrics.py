"""/metrics: who may read it and what it tells."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from huey.storage import MemoryStorage
from prometheus_client.parser import text_string_to_metric_families

from relayer_service import __version__
from relayer_service.background.tasks import queue
from relayer_service.models import PeriodicRun
from relayer_service.observability import metrics
from tests.servers import PROJECT
from tokens.tasks import record_use

UNAUTHORIZED = {"data": None, "message": "Unauthorized", "success": False}


def samples(text: str) -> dict[str, float]:
    """Return each series with its value, as `name{label=value,...}`."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


@pytest.fixture
def scrape(client: Client, settings: Any, db: None) -> Any:
    def read() -> dict[str, float]:
        settings.METRICS_ALLOW = [ip_network("127.0.0.1/32")]
        return samples(client.get("/metrics").content.decode())

    return read


def test_metrics_are_refused_without_a_token(client: Client, db: None) -> None:
    response = client.get("/metrics")
    assert (response.status_code, response.json()) == (401, UNAUTHORIZED)
    assert response["WWW-Authenticate"] == "Bearer"


def test_metrics_are_read_with_a_token(client: Client, token: str) -> None:
    response = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 200
    assert response["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "relayer_http_requests_total" in response.content.decode()


@pytest.mark.parametrize(("address", "status"), [("192.0.2.7", 200), ("192.0.2.8", 401), ("::ffff:192.0.2.7", 200)])
def test_metrics_are_read_from_the_allowed_networks_without_a_token(
    client: Client, settings: Any, db: None, address: str, status: int
) -> None:
    settings.METRICS_ALLOW = [ip_network("192.0.2.7/32")]
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == status


def test_a_scrape_from_the_allowed_networks_may_name_any_host(client: Client, settings: Any, db: None) -> None:
    settings.ALLOWED_HOSTS = ["relayer.example.com"]
    settings.METRICS_ALLOW = [ip_network("192.0.2.7/32")]
    asked = [("/metrics", "192.0.2.7"), ("/metrics", "192.0.2.8"), ("/ready", "192.0.2.7")]
    answers = [client.get(path, HTTP_HOST="10.0.0.5:8000", REMOTE_ADDR=address) for path, address in asked]
    assert [answer.status_code for answer in answers] == [200, 400, 400]


def test_requests_are_counted_by_route_and_status(client: Client, token: str, scrape: Any) -> None:
    before = scrape()
    client.get("/api/v1/items", headers={"Authorization": f"Bearer {token}"})
    client.get("/api/v1/items?page=2", headers={"Authorization": f"Bearer {token}"})
    client.get("/api/v1/items")
    client.get("/api/v1/no-such-path")
    client.generic("BREW", "/health")
    after = scrape()
    grown = {
        name: after[name] - before.get(name, 0) for name in after if name.startswith("relayer_http_requests_total")
    }
    assert {name: value for name, value in grown.items() if value} == {
        "relayer_http_requests_total{method=GET,route=item-list,status=200}": 2,
        "relayer_http_requests_total{method=GET,route=item-list,status=401}": 1,
        "relayer_http_requests_total{method=GET,route=unmatched,status=404}": 1,
        "relayer_http_requests_total{method=other,route=health,status=405}": 1,
        "relayer_http_requests_total{method=GET,route=metrics,status=200}": 1,
    }


def test_latency_is_a_histogram_by_route(client: Client, scrape: Any) -> None:
    before = scrape()
    client.get("/health")
    after = scrape()
    for name in ("count{method=GET,route=health}", "bucket{le=+Inf,method=GET,route=health}"):
        series = f"relayer_http_request_duration_seconds_{name}"
        assert after[series] - before.get(series, 0) == 1


def test_no_series_carries_what_a_caller_wrote(client: Client, scrape: Any) -> None:
    client.get("/api/v1/made-up-by-the-caller", headers={"User-Agent": "made-up-by-the-caller"})
    assert "made-up" not in str(scrape())


def test_the_depth_of_the_queue_is_read_on_scrape(scrape: Any) -> None:
    assert scrape()["relayer_task_queue_depth{kind=waiting}"] == 0
    record_use(1, 0.0)
    record_use.schedule((1, 0.0), delay=3600)
    depth = {name: value for name, value in scrape().items() if name.startswith("relayer_task_queue_depth")}
    assert depth == {"relayer_task_queue_depth{kind=waiting}": 2, "relayer_task_queue_depth{kind=scheduled}": 0}


def test_a_queue_that_cannot_be_read_leaves_the_other_series(
    monkeypatch: pytest.MonkeyPatch, scrape: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(MemoryStorage):
        def queue_size(self) -> int:
            raise OSError("the queue is away")

    monkeypatch.setattr(queue, "storage", Broken("tests"))
    found = scrape()
    assert not [name for name in found if name.startswith("relayer_task_queue_depth")]
    assert [name for name in found if name.startswith("relayer_http_requests_total")]
    assert "The scrape by QueueCollector failed: the task queue cannot be read (OSError)" in caplog.text


def test_the_connections_of_the_pool_are_shown_where_there_is_one(client: Client, scrape: Any) -> None:
    client.get("/ready")
    shown = {name: value for name, value in scrape().items() if name.startswith("relayer_database_pool_connections")}
    if connection.vendor == "sqlite":
        assert shown == {}
        return
    assert set(shown) == {
        f"relayer_database_pool_connections{{state={state}}}" for state in ("open", "idle", "waiting")
    }
    assert shown["relayer_database_pool_connections{state=open}"] >= 1
    assert shown["relayer_database_pool_connections{state=waiting}"] == 0


def test_the_parts_of_ready_are_shown(scrape: Any, settings: Any) -> None:
    found = {name: value for name, value in scrape().items() if name.startswith("relayer_ready")}
    parts = {"database": 1, "cache": 1, "migrations": 1, "encryption": 1, "peppers": 1, "worker": 0}
    assert found == {f"relayer_ready{{part={part}}}": value for part, value in parts.items()}


def test_the_last_run_of_periodic_work_is_shown(scrape: Any) -> None:
    ran = {"started_at": datetime.fromtimestamp(1000, UTC), "finished_at": datetime.fromtimestamp(1002, UTC)}
    PeriodicRun.objects.create(name="check_relayers", slot=1, seconds=2.0, failed=True, **ran)
    PeriodicRun.objects.create(name="work of a release that is gone", slot=1, **ran)
    assert {name: value for name, value in scrape().items() if name.startswith("relayer_periodic")} == {
        "relayer_periodic_interval_seconds{task=check_relayers}": 2,
        "relayer_periodic_last_run_timestamp_seconds{task=check_relayers}": 1000,
        "relayer_periodic_last_success_timestamp_seconds{task=check_relayers}": 1002,
        "relayer_periodic_last_duration_seconds{task=check_relayers}": 2,
        "relayer_periodic_failed{task=check_relayers}": 1,
    }


def test_release_and_process_are_shown(scrape: Any) -> None:
    found = scrape()
    assert found[f"relayer_build_info{{python={platform.python_version()},version={__version__}}}"] == 1
    assert found[f"relayer_process_resident_memory_bytes{{pid={os.getpid()}}}"] > 0


COUNT_ONE_REQUEST = """
import django
django.setup()
from relayer_service.observability import metrics
metrics.observe_request("GET", "item-list", 200, 0.001)
"""
READ = """
print(metrics.exposition().decode())
"""


@pytest.mark.long
def test_several_processes_are_counted_together(tmp_path: Path) -> None:
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "not" / "there yet"),
        "TASK_QUEUE_URL": f"sqlite:{tmp_path}/tasks.sqlite3",
        "DATABASE_URL": "",
    }

    def run(program: str) -> str:
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, cwd=PROJECT, check=True, capture_output=True, text=True).stdout

    run(COUNT_ONE_REQUEST)
    found = samples(run(COUNT_ONE_REQUEST + READ))
    assert found["relayer_http_requests_total{method=GET,route=item-list,status=200}"] == 2
    assert found["relayer_http_request_duration_seconds_count{method=GET,route=item-list}"] == 2


def test_an_unknown_method_has_no_series(db: None) -> None:
    metrics.observe_request("MADE-UP", "health", 405, 0.001)
    assert "MADE-UP" not in metrics.exposition().decode()
