"""The cache of a process: a value holds for its time, a full cache evicts the oldest, a removal is final."""

import time
from collections.abc import Callable

import pytest

from relayer_service.database import ttl_cache
from relayer_service.database.ttl_cache import TTLCache

At = Callable[[float], None]


@pytest.fixture
def cache() -> TTLCache[str, int]:
    return TTLCache(max_entries=3)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Let it be so many seconds after the test began."""
    start = time.monotonic()
    return lambda seconds: monkeypatch.setattr(time, "monotonic", lambda: start + seconds)


def test_a_value_holds_for_its_time_and_no_longer(cache: TTLCache[str, int], at: At) -> None:
    at(0)
    cache.set("a", 1, 12)
    cache.set("b", 2, 5)
    at(4.9)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, 2, None)
    at(5)
    assert (cache.get("a"), cache.get("b")) == (1, None)
    at(12)
    assert cache.get("a") is None
    # One for no time takes the place of the old one.
    for seconds in (0, -1):
        cache.set("a", 1, 60)
        cache.set("a", 2, seconds)
        assert cache.get("a") is None


def test_a_full_cache_evicts_what_was_set_longest_ago(cache: TTLCache[str, int]) -> None:
    for key in ("a", "b", "c", "a", "d"):
        cache.set(key, 1, 60)
    assert [cache.get(key) for key in "abcd"] == [1, None, 1, 1]


def test_a_missing_value_is_read_once(cache: TTLCache[str, int]) -> None:
    numbers, numbers_by_name = iter(range(5)), dict[str, int]()
    assert [cache.get_or_read("a", lambda: next(numbers), 60) for _ in range(3)] == [0, 0, 0]
    assert [cache.get_or_read("b", lambda: next(numbers), 0) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(KeyError):
        cache.get_or_read("c", lambda: numbers_by_name["c"], 60)
    assert len(cache) == 1
    ttl_cache.clear_all()
    assert len(cache) == 0


def test_what_is_removed_is_gone_and_the_rest_stays(cache: TTLCache[str, int]) -> None:
    for number, key in enumerate("abc"):
        cache.set(key, number, 60)
    cache.remove("a")
    cache.remove("unknown")
    cache.remove_where(lambda value: value == 2)
    assert [cache.get(key) for key in "abc"] == [None, 1, None]


def test_what_was_read_before_a_removal_is_not_stored_after_it(cache: TTLCache[str, int]) -> None:
    def remove_meanwhile() -> int:
        cache.remove("a")
        return 1

    assert cache.get_or_read("a", remove_meanwhile, 60) == 1
    assert cache.get("a") is None
