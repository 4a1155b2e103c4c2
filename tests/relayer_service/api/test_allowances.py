"""What a token can use per period: never more than the limit, whatever the parts that processes take."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from relayer_service.api import allowances
from tests.concurrency import in_threads
from tests.relayer_service.api.test_throttling import shared_cache
from tests.servers import free_port

DAY = 86_400


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin the tests in the middle of a day, so that none goes on the next."""
    monkeypatch.setattr(time, "time", lambda: 1_000 * DAY + DAY / 2)


@pytest.fixture(params=["local", "redis"])
def shared(request: pytest.FixtureRequest, settings: Any) -> Iterator[None]:
    if request.param == "local":
        yield
        return
    url = request.getfixturevalue("redis_url")
    settings.CACHES = shared_cache(url)
    redis.Redis.from_url(url).flushdb()
    yield
    redis.Redis.from_url(url).flushdb()


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("part", [0, 3, 100])
def test_no_more_than_the_limit_is_used(part: int) -> None:
    waits = [allowances.take("a", 1, 10, DAY, part) for _ in range(12)]
    assert waits == [0] * 10 + [DAY // 2] * 2
    assert [allowances.take("b", amount, 10, DAY, 1) for amount in (8, 3, 2, 1)] == [0, DAY // 2, 0, DAY // 2]
    assert allowances.take("c", 1, 10, DAY, 6) == 0
    # As another process would not know what this one has taken.
    allowances._left.clear()
    assert [allowances.take("c", 1, 10, DAY, 6) for _ in range(5)] == [0] * 4 + [DAY // 2]


@pytest.mark.usefixtures("shared")
def test_concurrent_requests_use_no_more_than_the_limit() -> None:
    waits = in_threads(*[lambda: [allowances.take("a", 1, 100, DAY, 7) for _ in range(10)]] * 16)
    assert sum(wait == 0 for each in waits for wait in each) == 100


@pytest.mark.usefixtures("shared")
def test_names_limits_and_periods_are_counted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert allowances.take("a", 1, 1, DAY, 1) == 0
    assert [allowances.take("b", 1, 1, DAY, 1), allowances.take("a", 1, 2, DAY, 1)] == [0, 0]
    assert allowances.take("a", 1, 1, DAY, 1) == DAY // 2
    monkeypatch.setattr(time, "time", lambda: 1_001 * DAY)
    assert allowances.take("a", 1, 1, DAY, 1) == 0


def test_most_requests_need_no_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    leased: list[int] = []

    def lease(_key: str, wanted: int, *_: int) -> int:
        leased.append(wanted)
        return wanted

    monkeypatch.setattr(allowances, "_lease", lease)
    assert {allowances.take("a", 1, 1_000, DAY, 10) for _ in range(100)} == {0}
    assert leased == [10] * 10


def test_without_the_cache_nothing_is_limited(settings: Any) -> None:
    settings.CACHES = shared_cache(f"redis://127.0.0.1:{free_port()}/0")
    assert {allowances.take("a", 1, 2, DAY, 1) for _ in range(5)} == {0}
