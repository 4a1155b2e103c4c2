"""Signs of life of a worker for its supervisor: a message to systemd, or the modification time of a file."""

import logging
import os
import socket
import threading
from pathlib import Path

logger = logging.getLogger(__name__)

SCHEDULER, THREAD = "scheduler", "thread"
# systemd takes the first as the end of the start and each as a sign of life.
MESSAGE = b"READY=1\nWATCHDOG=1"


class Watchdog:
    """Beats each time that both the scheduler and a thread of the worker have taken a turn since the last beat."""

    def __init__(self) -> None:
        self.beat_file: Path | None = None
        self._waiting_for = {SCHEDULER, THREAD}
        self._lock = threading.Lock()

    def record_turn(self, part: str) -> None:
        with self._lock:
            self._waiting_for.discard(part)
            if self._waiting_for:
                return
            self._waiting_for = {SCHEDULER, THREAD}
        try:
            self._beat()
        except OSError:
            logger.exception("The worker cannot show that it works")

    def _beat(self) -> None:
        if self.beat_file is not None:
            self.beat_file.touch()
        if address := os.environ.get("NOTIFY_SOCKET"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
                # systemd writes the null byte of an abstract socket address as an @.
                notifier.sendto(MESSAGE, "\0" + address[1:] if address.startswith("@") else address)
