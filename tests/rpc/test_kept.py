"""What is kept: one reads for all who want it at once, and it holds for its time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import TimeoutError as WaitTimeout

import pytest

from rpc import kept
from rpc.kept import Kept


def test_the_first_fills_the_slot_and_the_others_wait_for_it() -> None:
    values: Kept[int] = Kept()
    slot, is_mine = values.take("a")
    others = [values.take("a") for _ in range(3)]
    assert is_mine
    assert [(each is slot, mine) for each, mine in others] == [(True, False)] * 3
    found: list[int] = []
    threads = [threading.Thread(target=lambda each=each: found.append(each.wait(10))) for each, _ in others]
    for thread in threads:
        thread.start()
    slot.fill(7, 60)
    for thread in threads:
        thread.join()
    assert found == [7, 7, 7]


def test_each_key_has_a_slot_of_its_own() -> None:
    values: Kept[int] = Kept()
    assert [values.take(key)[1] for key in ("a", "b", ("a", 1), "a")] == [True, True, True, False]


def test_a_value_holds_for_its_time_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    values: Kept[int] = Kept()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    values.take("a")[0].fill(7, 12)
    monkeypatch.setattr(time, "monotonic", lambda: now + 11.9)
    slot, is_mine = values.take("a")
    assert (slot.wait(0), is_mine) == (7, False)
    monkeypatch.setattr(time, "monotonic", lambda: now + 12)
    assert values.take("a")[1]


def test_a_value_that_is_kept_for_no_time_is_still_given_to_those_who_wait() -> None:
    values: Kept[int] = Kept()
    slot, _ = values.take("a")
    waiting, _ = values.take("a")
    slot.fill(7, 0)
    assert waiting.wait(0) == 7
    assert values.take("a")[1]


def test_those_who_wait_fail_alike_and_the_next_reads_anew() -> None:
    values: Kept[int] = Kept()
    slot, _ = values.take("a")
    waiting, _ = values.take("a")
    slot.fail(ValueError("no node"))
    with pytest.raises(ValueError, match="no node"):
        waiting.wait(0)
    assert values.take("a")[1]


def test_a_failure_does_not_undo_what_was_filled() -> None:
    values: Kept[int] = Kept()
    slot, _ = values.take("a")
    slot.fill(7, 60)
    slot.fail(ValueError("too late"))
    assert values.take("a")[0].wait(0) == 7


def test_waiting_ends() -> None:
    values: Kept[int] = Kept()
    values.take("a")
    with pytest.raises(WaitTimeout):
        values.take("a")[0].wait(0.01)


def test_what_no_longer_holds_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 3)
    values: Kept[int] = Kept()
    for key, seconds in (("old", 0), ("fresh", 60)):
        values.take(key)[0].fill(7, seconds)
    values.take("read now")
    values.take("new")
    assert [values.take(key)[1] for key in ("fresh", "read now", "new")] == [False, False, False]
    assert "old" not in values._slots


def test_nothing_of_a_failure_stays() -> None:
    values: Kept[int] = Kept()

    def fail() -> int:
        raise ValueError("no such token")

    for key in range(5):
        with pytest.raises(ValueError, match="no such token"):
            values.get(key, fail, 60)
    assert values._slots == {}


def test_a_value_is_read_once_by_those_who_ask_for_it() -> None:
    values: Kept[int] = Kept()
    numbers = iter(range(5))
    assert [values.get("a", lambda: next(numbers), 60) for _ in range(3)] == [0, 0, 0]
    assert [values.get("b", lambda: next(numbers), 0) for _ in range(3)] == [1, 2, 3]
