from __future__ import annotations

import gc
import io
import json
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import pytest
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import OperationalError, connection
from django.template import RequestContext, Template
from django.test.signals import template_rendered
from django.utils.safestring import SafeString
from huey.storage import MemoryStorage
from xdist.scheduler import LoadScopeScheduling

from chain.nodes import breakers
from relayer_service.background.tasks import queue
from relayer_service.database import ttl_cache
from relayer_service.database.caches import FailOpenRedisCache
from relayer_service.database.postgresql.outages import outage
from relayer_service.health import views as health
from relayer_service.observability import metrics, probes
from relayer_service.observability.logs import JsonFormatter, SecretFilter, redact
from relayers import nodes
from rpc import counters
from tests import database_copies, processes
from tests.api import Api, WireApi
from tests.chain.fixtures import chain, deployed, faulty, hardhat, quick_nodes, restored_chain
from tokens import credentials, uses
from tokens.models import AccessToken

__all__ = ["chain", "deployed", "faulty", "hardhat", "quick_nodes", "restored_chain"]

# From the start: fixtures of a session call nodes too, and threads of a test may do so after it.
nodes.pending.writes_by_itself = False

# The same examples in every run, however slow the machine is.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


DATABASE_FIXTURES = {"db", "transactional_db"}
# A browser and a chain take long to start: each is started by one process, which begins with what needs it.
TOGETHER = {
    # With a browser of their own: together they take as long as all others.
    "tests/browser/test_accessibility": "second browser",
    "tests/browser/test_docs_pages": "second browser",
    "tests/browser/": "browser",
    "tests/chain/": "node",
    "tests/client/": "client",
    "tests/relayers/test_health": "node",
    "tests/rpc/": "contracts",
}


# Until all tests are collected, nothing becomes garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave thousands of tests and modules out of every search for garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI everything must run: a skip there is a failure."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose what runs on the second engine, and put first what one process runs together, and files that take long.

    A long file at the end would leave the other processes without work.
    """
    is_chosen = touches_database if os.environ.get("TEST_ONLY_DATABASE") else runs_on_sqlite
    config.hook.pytest_deselected(items=[item for item in items if not is_chosen(item)])
    items[:] = [item for item in items if is_chosen(item)]
    long_files = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: (not item.nodeid.startswith((*TOGETHER,)), item.path not in long_files))


def runs_on_sqlite(item: pytest.Item) -> bool:
    return connection.vendor != "sqlite" or item.get_closest_marker("postgresql") is None


class FileScheduling(LoadScopeScheduling):
    """Hand out the tests of a file to one process, and those of files that need the same server."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((server for start, server in TOGETHER.items() if file.startswith(start)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)


def touches_database(item: pytest.Item) -> bool:
    """Return whether to run a test on the second engine: in `make test`, only if it can differ there."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if not (os.environ.get("TEST_BOTH_ENGINES") or can_differ(item, fixtures)):
        return False
    # What a fee comes to on a real chain is the same on every database: those have tests with a simpler node.
    if item.get_closest_marker("one_engine") or "chain" in fixtures:
        return False
    has_marker = any(item.get_closest_marker(name) for name in ("django_db", "postgresql"))
    return has_marker or not fixtures.isdisjoint(DATABASE_FIXTURES)


def can_differ(item: pytest.Item, fixtures: set[str]) -> bool:
    """Return whether a test is about locks, SQL or constraints: it has transactions of its own, or a marker."""
    marker = item.get_closest_marker("django_db")
    has_transactions = "transactional_db" in fixtures or bool(marker and marker.kwargs.get("transaction"))
    return has_transactions or any(item.get_closest_marker(name) for name in ("both_engines", "postgresql"))


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """The database of this process; pytest-django's own would run all migrations in each."""
    process = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    with django_db_blocker.unblock(), database_copies.copied(settings.RUN_DIR, process), django_db_blocker.block():
        ops: Any = connection.ops
        ops.execute_sql_flush = partial(empty, ops.execute_sql_flush)
        yield


def empty(execute: Callable[[list[str]], None], statements: list[str]) -> None:
    """Empty the database, again after a deadlock with a server that writes what it has counted."""
    for _ in range(3):
        with suppress(OperationalError):
            return execute(statements)
    return execute(statements)


@pytest.fixture(autouse=True, scope="session")
def recorded_pages(django_test_environment: None) -> None:
    """Load the admin, and record the context of each page once, not once for each of its hundreds of templates."""
    admin.autodiscover()
    Template._render = record_and_render  # type: ignore[attr-defined]  # as Django's own test environment does


def record_and_render(template: Template, context: Any) -> SafeString:
    if isinstance(context, RequestContext) and context.template is template:
        template_rendered.send(sender=template, template=template, context=context)
    return template.nodelist.render(context)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty task queue and empty caches for each test."""
    monkeypatch.setattr(queue, "storage", MemoryStorage("tests"))
    # Tests write what was counted when they mean to.
    monkeypatch.setattr(counters.counter, "writes_by_itself", False)
    monkeypatch.setattr(uses.pending, "writes_by_itself", False)
    monkeypatch.setattr(probes, "start", partial(start_probe, probes.start))
    forget_everything()
    yield
    forget_everything()


def start_probe(start: Callable[[Any], Future[Any]], probe: Callable[[], Any]) -> Future[Any]:
    """Run a probe in the thread of a test whose transaction no other thread can see."""
    if not connection.in_atomic_block:
        return start(probe)
    future: Future[Any] = Future()
    try:
        future.set_result(probe())
    except Exception as error:
        future.set_exception(error)
    return future


def forget_everything() -> None:
    ttl_cache.clear_all()
    counters.counter.reset()
    uses.pending.reset()
    nodes.pending.reset()
    breakers.set_taken_out(())
    FailOpenRedisCache.down_until = 0.0
    outage.forget()
    health.readiness.failures.clear()
    metrics.shared.reads.failures.clear()
    cache.clear()


@pytest.fixture(autouse=True, scope="session")
def hidden_secrets() -> None:
    """Have logs hide the secrets of these settings, which they read once, not those that a test sets."""
    redact("the first line")


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("alice", password="a-password-for-tests")


@pytest.fixture
def token(user: User) -> str:
    """The text of a token, whose row is written without the checks and the audit log, as most tests have one."""
    credential = credentials.generate()
    row = AccessToken(name="tests", user=user)
    row.set_credential(credential)
    row.save()
    return credential.reveal()


@pytest.fixture(scope="session")
def redis_url() -> str:
    url = os.environ.get("TEST_REDIS_URL", "")
    if not url:
        pytest.skip("there is no Redis: TEST_REDIS_URL is not set and no redis-server was found")
    # Each process of a run has a database of its own.
    parts = urlsplit(url)
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return urlunsplit(parts._replace(path=f"/{int(parts.path.strip('/') or 0) + worker}"))


@pytest.fixture(scope="session")
def server_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="session")
def server_port(django_db_setup: None, django_db_blocker: Any, server_log: Path) -> Iterator[int]:
    """The real web server, on the test database."""
    # Its watch would report a worker that a test says has stopped.
    never = "relayer_service.processes.WATCH_AFTER_SECONDS=1e9"
    constants = f"{never} relayer_service.server.request_bodies.TIMEOUT_SECONDS=2"
    with django_db_blocker.unblock(), processes.web(server_log, RATE_LIMIT_RPC="", TEST_CONSTANTS=constants) as port:
        yield port


@pytest.fixture
def api(token: str) -> Api:
    """A client of the service in this process, with a good token."""
    return Api(token)


@pytest.fixture
def wire(server_port: int, transactional_db: None, token: str) -> WireApi:
    """A client of the real web server, with a good token."""
    return WireApi(token, server_port)


class Log:
    """What this process has logged, as its log shows it."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def parsed(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def lines(self, request_id: str) -> list[dict[str, Any]]:
        """Return the lines of a request."""
        return [line for line in self.parsed() if line["request_id"] == request_id]


@pytest.fixture
def log() -> Iterator[Log]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(SecretFilter())
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    yield Log(stream)
    root.removeHandler(handler)
