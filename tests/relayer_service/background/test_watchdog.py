"""The signs of life of a worker, which its supervisor restarts when they stay away."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayer_service.background import tasks
from relayer_service.background.tasks import MESSAGE, SCHEDULER, THREAD, SecondsScheduler, TurnTakingThread, Watchdog


@pytest.fixture(params=["path", "abstract"])
def systemd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """Take the messages that systemd would, at either kind of address."""
    address = str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path}/notify"
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(address.replace("@", "\0"))
        listener.setblocking(False)
        yield listener


def received(listener: socket.socket) -> list[bytes]:
    messages = []
    try:
        while True:
            messages.append(listener.recv(1024))
    except BlockingIOError:
        return messages


def test_a_worker_beats_once_both_of_its_parts_have_taken_a_turn(
    systemd: socket.socket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watchdog = Watchdog()
    watchdog.beat_file = tmp_path / "beat"
    for part in (THREAD, THREAD):
        watchdog.record_turn(part)
    assert (received(systemd), watchdog.beat_file.exists()) == ([], False)
    for part in (SCHEDULER, SCHEDULER):
        watchdog.record_turn(part)
    assert (received(systemd), watchdog.beat_file.exists()) == ([MESSAGE], True)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "none"))
    watchdog.record_turn(THREAD)
    assert caplog.messages == ["Cannot notify the supervisor of the worker"]


def test_a_scheduler_that_fails_takes_no_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(now: object) -> None:
        raise ZeroDivisionError

    watchdog = Watchdog()
    watchdog.beat_file = tmp_path / "beat"
    monkeypatch.setattr(tasks, "watchdog", watchdog)
    stopped = threading.Event()
    stopped.set()
    TurnTakingThread(tasks.queue, stopped, 1, 1, 1).loop()
    monkeypatch.setattr(tasks.queue, "read_schedule", lambda now: [])
    with monkeypatch.context() as broken:
        broken.setattr(tasks.queue, "read_periodic", fail)
        with pytest.raises(ZeroDivisionError):
            SecondsScheduler(tasks.queue, stopped, 1, True).loop()
    assert not watchdog.beat_file.exists()
    monkeypatch.setattr(tasks.queue, "read_periodic", lambda now: [])
    SecondsScheduler(tasks.queue, stopped, 1, True).loop()
    assert watchdog.beat_file.exists()
