"""What belongs to one process, such as threads, connections and locks, and must not be used after a fork."""

from __future__ import annotations

import os
import threading


class ProcessState:
    """State of one process: a forked process begins with its own.

    A subclass sets all of it in `reset`, and starts threads at their first use.
    """

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        # A thread that a forked process does not have may hold the lock.
        self._lock = threading.Lock()
