"""Limits for each token, on a real Redis, a dead one and one that hangs."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import redis
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from relayer_service.database.caches import FailOpenRedisCache
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.contract import bodies
from tests.servers import free_port
from tokens.writes import issue

EMPTY_LIST = bodies.page([], total_items=0)
TOO_MANY = bodies.failure("Too Many Requests")
NOT_ENFORCED = "Redis is unavailable ({}): rate limits are not enforced"


def shared_cache(url: str, seconds: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """The cache that the settings make of a REDIS_URL, with another patience."""
    return {
        "default": {
            "BACKEND": "relayer_service.database.caches.FailOpenRedisCache",
            "LOCATION": url,
            "OPTIONS": {"socket_connect_timeout": seconds, "socket_timeout": seconds, "health_check_interval": 30},
        }
    }


def get(client: Client, token: str) -> Any:
    return client.get("/api/v1/items", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def on_redis(settings: Any, redis_url: str) -> Iterator[None]:
    settings.CACHES = shared_cache(redis_url)
    redis.Redis.from_url(redis_url).flushdb()
    yield
    redis.Redis.from_url(redis_url).flushdb()


@pytest.fixture
def redis_is_down(settings: Any) -> None:
    settings.CACHES = shared_cache(f"redis://127.0.0.1:{free_port()}/0")


@dataclass
class SilentServer:
    """Takes connections and never answers."""

    port: int
    accepted: list[socket.socket] = field(default_factory=list)

    def connections(self) -> int:
        """Count what was accepted before now: connections are accepted in their order, this one the last."""
        with socket.create_connection(("127.0.0.1", self.port)) as mine:
            wait_until(lambda: mine.getsockname() in [peer.getpeername() for peer in self.accepted])
        mine_and_later = 1
        count = len(self.accepted) - mine_and_later
        self.accepted.pop().close()
        return count


@contextmanager
def silent_server() -> Iterator[SilentServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = SilentServer(listener.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    server.accepted.append(listener.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for connection in server.accepted:
                connection.close()


@pytest.mark.usefixtures("on_redis")
def test_a_token_past_its_rate_gets_retry_after(settings: Any, client: Client, token: str, user: User) -> None:
    server, other = redis.Redis.from_url(settings.CACHES["default"]["LOCATION"]), issue(name="other", user=user)[1]
    settings.RATE_LIMIT_SAMPLE = ""
    assert ({get(client, token).status_code for _ in range(5)}, server.dbsize()) == ({200}, 0)
    settings.RATE_LIMIT_SAMPLE = "1/m"
    assert [get(client, text).status_code for text in (token, token, other, other)] == [200, 429, 200, 429]
    refused = get(client, token)
    assert (refused.status_code, refused.json()) == (429, TOO_MANY)
    assert 1 <= int(refused["Retry-After"]) <= 60
    # Counters expire by themselves.
    assert {0 < server.ttl(key) <= 65 for key in server.scan_iter()} == {True}


@pytest.mark.usefixtures("redis_is_down")
def test_without_redis_requests_are_answered_and_the_log_says_what_is_missing(
    settings: Any, client: Client, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings.RATE_LIMIT_SAMPLE = "1/d"
    assert [get(client, token).json() for _ in range(3)] == [EMPTY_LIST] * 3
    said = [record.getMessage() for record in caplog.records if record.name == "relayer_service.database.caches"]
    assert said == [NOT_ENFORCED.format("ConnectionError")]


OF_AN_EMPTY_CACHE: list[tuple[Callable[[], Any], Any]] = [
    (lambda: cache.add("key", 1), False),
    (lambda: cache.get("key", "default"), "default"),
    (lambda: cache.get_or_set("key", 7), 7),
    (lambda: cache.set("key", 1), None),
    (lambda: cache.touch("key"), False),
    (lambda: cache.incr("key"), None),
    (lambda: cache.decr("key"), None),
    (lambda: cache.delete("key"), False),
    (lambda: "key" in cache, False),
    (lambda: cache.get_many(["key"]), {}),
    (lambda: cache.set_many({"key": 1}), []),
    (lambda: cache.delete_many(["key"]), None),
]


@pytest.mark.usefixtures("redis_is_down")
def test_a_cache_without_redis_is_an_empty_one() -> None:
    for use, expected in OF_AN_EMPTY_CACHE:
        FailOpenRedisCache.down_until = 0.0
        assert use() == expected
        assert FailOpenRedisCache.down_until > 0


def test_a_redis_that_came_back_is_used_again(settings: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.CACHES = shared_cache(f"redis://127.0.0.1:{free_port()}/0")
    cache.set("key", 1)
    settings.CACHES = shared_cache(redis_url)
    assert cache.add("key", 1) is False
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 5.1)
    assert cache.add("key", 1) is True
    # As after a connection that Redis closed: this one alone, as other processes of the run use the same server.
    mine = cache._cache.get_client().client_id()  # type: ignore[attr-defined]  # of the Redis behind it
    assert redis.Redis.from_url(redis_url).client_kill_filter(_id=mine) == 1
    assert cache.get("key") == 1


def test_a_redis_that_hangs_is_asked_by_one_request_and_not_by_the_next(
    settings: Any, client: Client, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    with silent_server() as server:
        settings.CACHES = shared_cache(f"redis://127.0.0.1:{server.port}/0", seconds=0.2)
        assert get(client, token).json() == EMPTY_LIST
        assert server.connections() == 1
        assert get(client, token).json() == EMPTY_LIST
        assert server.connections() == 1
    said = [record.getMessage() for record in caplog.records if record.name == "relayer_service.database.caches"]
    assert said == [NOT_ENFORCED.format("TimeoutError")]
