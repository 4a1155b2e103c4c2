from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from huey.storage import MemoryStorage

from relayer_service.caches import FailOpenRedisCache
from relayer_service.models import RowDelta
from relayer_service.tasks import queue
from rpc import counters, views
from rpc.fees import readings, tokens
from tests import processes
from tests.api import Api
from tokens import last_use
from tokens.models import AccessToken
from tokens.verified import verified_tokens

# The same examples in every run, however slow the machine is.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")


DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup"}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI everything must run: a skip there is a failure."""
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On the second engine, run what touches the database: nothing else, nor the look of a page, depends on it."""
    if not os.environ.get("TEST_ONLY_DATABASE"):
        return
    kept = [item for item in items if touches_database(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def touches_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("looks"):
        return False
    # Pages come from views that other tests run on both engines; a browser takes most of a small machine.
    if os.environ.get("TEST_BROWSER_ONCE") and "browser" in item.path.parts:
        return False
    fixtures = set(getattr(item, "fixturenames", ()))
    return item.get_closest_marker("django_db") is not None or not fixtures.isdisjoint(DATABASE_FIXTURES)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test an empty task queue of its own, and leave nothing of it in the process for the next."""
    monkeypatch.setattr(queue, "storage", MemoryStorage("tests"))
    # Tests write what was counted when they mean to.
    monkeypatch.setattr(counters.counter, "writes_by_itself", False)
    forget_everything()
    yield
    forget_everything()


def forget_everything() -> None:
    verified_tokens.clear()
    last_use._noted.clear()
    readings.kept.clear()
    tokens.kept.clear()
    views.kept.clear()
    counters.forget()
    FailOpenRedisCache.down_until = 0.0
    cache.clear()


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("alice", password="a-password-for-tests")


@pytest.fixture
def token(user: User) -> str:
    return AccessToken.objects.issue(name="tests", user=user)[1]


@pytest.fixture(scope="session")
def redis_url() -> str:
    url = os.environ.get("TEST_REDIS_URL", "")
    if not url:
        pytest.skip("there is no Redis: TEST_REDIS_URL is not set and no redis-server was found")
    return url


@pytest.fixture(scope="session")
def server_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server") / "log"


@pytest.fixture(scope="session")
def server_port(django_db_setup: None, django_db_blocker: Any, server_log: Path) -> Iterator[int]:
    """The real web server, on the test database."""
    with (
        django_db_blocker.unblock(),
        processes.web(server_log, RATE_LIMIT_BAD_CREDENTIALS="", RATE_LIMIT_RPC="") as port,
    ):
        yield port


@pytest.fixture
def api(server_port: int, transactional_db: None, token: str) -> Api:
    """A client of the real web server, with a good token."""
    # On SQLite, emptying the tables after the last test counted its rows down.
    RowDelta.objects.all().delete()
    return Api(server_port, token)
