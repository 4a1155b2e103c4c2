"""/health and /ready: what they say when a part fails, and what they do not say."""

import errno
import os
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import Tags, run_checks
from django.db import OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from relayer_service.background.tasks import heartbeat
from relayer_service.database.caches import FailOpenRedisCache
from relayer_service.health.views import PROBE_SECONDS, PROBES, all_migrations, require_cache
from relayer_service.models import EncryptionKey, PeriodicRun
from relayer_service.observability import probes
from relayer_service.observability.probes import ProbeFailed
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.conftest import Log
from tests.relayer_service.api.test_throttling import shared_cache, silent_server
from tests.servers import free_port

ALL_WELL = {"database": "ok", "cache": "ok", "migrations": "ok", "encryption": "ok", "peppers": "ok", "worker": "ok"}
NO_CACHE = {"status": "not ready", "parts": ALL_WELL | {"cache": "failed"}, "notes": ["rate limits are not enforced"]}


def beat(seconds_ago: int) -> None:
    then = timezone.now() - timedelta(seconds=seconds_ago)
    PeriodicRun.objects.update_or_create(
        name="heartbeat", defaults={"slot": 1, "started_at": then, "finished_at": then, "seconds": 0.0}
    )


@pytest.fixture
def worker(db: None) -> None:
    """A worker that beat a moment ago."""
    beat(seconds_ago=1)


def ready(client: Client) -> tuple[int, dict[str, Any]]:
    response: Any = client.get("/ready")
    assert "no-store" in response["Cache-Control"]
    return response.status_code, response.json()


def test_health_needs_nothing_and_pages_for_machines_are_only_read(
    client: Client, token: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        response = client.get("/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]
    for path in ("/health", "/ready", "/metrics"):
        refused = client.post(path, headers={"Authorization": f"Bearer {token}"})
        assert (refused.status_code, refused["Allow"]) == (405, "GET, HEAD")


def test_ready_names_what_fails_of_migrations_and_the_worker(
    client: Client, db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(part: str) -> tuple[int, dict[str, Any]]:
        return 503, {"status": "not ready", "parts": ALL_WELL | {part: "failed"}}

    well = (200, {"status": "ready", "parts": ALL_WELL})
    assert ready(client) == failed("worker")
    # A heartbeat is good for four of its intervals, and one of a time to come is none.
    found = []
    for seconds in (1, 35, 45, -7200):
        beat(seconds_ago=seconds)
        found.append(ready(client))
    assert found == [well, well, failed("worker"), failed("worker")]
    settings.READY_REQUIRES = ["database", "migrations"]
    assert ready(client) == (200, {"status": "ready", "parts": ALL_WELL | {"worker": "failed"}})
    beat(seconds_ago=1)
    # Lateness is by the clock of the database.
    tomorrow = timezone.now() + timedelta(days=1)
    with monkeypatch.context() as patch:
        patch.setattr(timezone, "now", lambda: tomorrow)
        assert ready(client) == well
    MigrationRecorder(connection).record_unapplied("rpc", "0010_drop_moved_counts")
    assert ready(client) == failed("migrations")


def broken(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
    raise OperationalError("could not connect to db.internal as relayer")


@pytest.mark.usefixtures("worker")
def test_a_database_that_does_not_answer_is_named_and_no_more(client: Client) -> None:
    with connection.execute_wrapper(broken):
        response = client.get("/ready")
    assert response.status_code == 503
    assert response.json() == {"status": "not ready", "parts": dict.fromkeys(ALL_WELL, "failed") | {"cache": "ok"}}


@pytest.mark.usefixtures("worker")
def test_a_probe_is_logged_when_it_begins_to_fail_and_when_it_works_again(client: Client, log: Log) -> None:
    for _ in range(3):
        with connection.execute_wrapper(broken):
            client.get("/ready")
    for _ in range(2):
        client.get("/ready")
    lines = log.parsed()
    probes = ("database", "migrations", "encryption", "peppers", "worker")
    why = "could not connect to db.internal as relayer"
    assert [(line["level"], line["message"]) for line in lines if line["logger"] != "relayer_service.requests"] == [
        *(("ERROR", f"The readiness probe of {name} failed: {why}") for name in probes),
        *(("WARNING", f"The readiness probe of {name} has recovered") for name in probes),
    ]
    assert not [line for line in lines if "traceback" in line]


def test_a_probe_that_hangs_fails_at_the_deadline_and_holds_up_nothing(
    client: Client, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one thread waits for it, however often it is asked for, and that thread ends with the process."""
    beat(seconds_ago=1)
    hanging, end, deadlines = [], threading.Event(), []

    def hang() -> bool:
        hanging.append(threading.current_thread())
        return end.wait(PATIENCE_SECONDS)

    def wait(futures: Collection[Future[None]], seconds: float) -> None:
        """Wait for the others, however slow the machine is."""
        deadlines.append(seconds)
        wait_until(lambda: sum(future.done() for future in futures) >= len(futures) - (not end.is_set()))

    monkeypatch.setattr(probes, "wait", wait)
    monkeypatch.setitem(PROBES, "database", hang)
    try:
        for _ in range(2):
            assert client.get("/ready").json()["parts"] == ALL_WELL | {"database": "failed"}
    finally:
        end.set()
    assert [thread.daemon for thread in hanging] == [True]
    hanging[0].join(PATIENCE_SECONDS)
    assert client.get("/ready").json()["parts"] == ALL_WELL
    assert deadlines == [PROBE_SECONDS] * 3


@pytest.mark.usefixtures("worker")
def test_ready_loads_the_migrations_once_and_makes_five_queries(
    client: Client, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    loaded = []
    load = MigrationLoader.load_disk

    def counted_load(loader: MigrationLoader) -> None:
        loaded.append(1)
        load(loader)

    monkeypatch.setattr(MigrationLoader, "load_disk", counted_load)
    all_migrations.cache_clear()
    for _ in range(3):
        with django_assert_num_queries(len(["database", "migrations", "encryption", "peppers", "worker"])):
            assert client.get("/ready").status_code == 200
    assert loaded == [1]


LATE = {
    ("check_relayers", 30): "ok",
    ("check_relayers", 65): "failed",
    ("prune_deliveries", 3 * 3600 - 60): "ok",
    ("prune_deliveries", 3 * 3600 + 60): "failed",
    ("work of a release that is gone", 10**6): "ok",
}


@pytest.mark.usefixtures("worker")
def test_periodic_work_that_is_late_fails_the_worker(client: Client) -> None:
    for (name, seconds), state in LATE.items():
        then = timezone.now() - timedelta(seconds=seconds)
        run = PeriodicRun.objects.create(name=name, slot=1, started_at=then, finished_at=then)
        assert ready(client)[1]["parts"] == ALL_WELL | {"worker": state}, name
        run.delete()


def test_a_heartbeat_that_finds_the_disk_full_is_none(
    client: Client, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both databases reuse space in their files, so that the heartbeat's own row can be written to a full disk."""

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size >= 65_536:
            raise OSError(errno.ENOSPC, "No space left on device")

    beat(seconds_ago=45)
    monkeypatch.setattr(os, "fsync", full)
    if connection.vendor == "postgresql":
        # As if its disk were full for anything but what has its place already.
        with connection.cursor() as cursor:
            cursor.execute("SET temp_file_limit = 0")
    with pytest.raises((OSError, OperationalError)):
        heartbeat.call_local()
    connection.close()
    assert client.get("/ready").json()["parts"] == ALL_WELL | {"worker": "failed"}


@pytest.mark.usefixtures("worker")
def test_a_redis_that_is_down_or_hangs_is_named_until_it_is_back(
    settings: Any, client: Client, redis_url: str
) -> None:
    settings.CACHES = shared_cache(f"redis://:hunter2@127.0.0.1:{free_port()}/0")
    assert ready(client) == (503, NO_CACHE)
    settings.CACHES = shared_cache(redis_url)
    assert ready(client) == (200, {"status": "ready", "parts": ALL_WELL})
    with silent_server() as server:
        settings.CACHES = shared_cache(f"redis://127.0.0.1:{server.port}/0", seconds=0.2)
        assert ready(client) == (503, NO_CACHE)


def test_while_one_request_waits_for_a_hanging_redis_others_get_the_last_result(settings: Any, redis_url: str) -> None:
    settings.CACHES = shared_cache(redis_url)
    require_cache()
    settings.CACHES = shared_cache(f"redis://127.0.0.1:{free_port()}/0")
    with FailOpenRedisCache.pinging:
        require_cache()
    with pytest.raises(ProbeFailed):
        require_cache()


@pytest.mark.usefixtures("worker")
def test_an_encryption_key_that_is_lost_or_changed_is_named(client: Client, settings: Settings) -> None:
    EncryptionKey.objects.ensure_canary()
    assert run_checks(tags=[Tags.database], databases=["default"]) == []
    for keys in ({"1": bytes(range(32, 64))}, {"2": bytes(range(32))}):
        settings.ENCRYPTION_KEYS = keys
        assert ready(client) == (503, {"status": "not ready", "parts": ALL_WELL | {"encryption": "failed"}})
    (error,) = run_checks(tags=[Tags.database], databases=["default"])
    missing = "The encryption key '1' is missing from ENCRYPTION_KEYS."
    assert (error.id, error.msg) == ("relayer_service.E005", missing)
