"""Thread pools: many things at once, in as many threads as the settings allow, and as /metrics shows them."""

import threading

import pytest
from prometheus_client import REGISTRY

from relayer_service.background import pools
from relayer_service.background.pools import Pool, map_threads
from tests.concurrency import PATIENCE_SECONDS


def shown(pool: str) -> tuple[float | None, float | None]:
    """Return the size of a pool and its threads in use, as the metrics have them."""
    labels = {"pool": pool}
    size, in_use = "relayer_thread_pool_size", "relayer_thread_pool_in_use"
    return REGISTRY.get_sample_value(size, labels), REGISTRY.get_sample_value(in_use, labels)


def test_results_come_in_the_order_of_the_items_from_as_many_threads_as_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = threading.Barrier(3)

    def square(number: int) -> int:
        together.wait(PATIENCE_SECONDS)
        return number * number

    assert map_threads(square, [3, 1, 2]) == [9, 1, 4]
    assert map_threads(square, []) == []
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda number: 1 // number, [1, 0])
    monkeypatch.setattr(pools, "NODE_THREADS", 2)
    assert len(set(map_threads(lambda _: threading.get_ident(), range(20)))) <= 2


def test_the_metrics_show_the_size_of_a_pool_and_its_threads_in_use() -> None:
    begun, end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        end.wait(PATIENCE_SECONDS)

    with Pool("tests", 3) as pool:
        assert shown("tests") == (3, 0)
        pool.submit(work)
        assert begun.wait(PATIENCE_SECONDS)
        assert shown("tests") == (3, 1)
        end.set()
    pool.shutdown()
    assert shown("tests") == (0, 0)
