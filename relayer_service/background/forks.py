"""State that a process must not inherit through a fork, such as threads, connections and locks."""

import os
import threading


class ProcessState:
    """Resets itself in a forked process. A subclass sets its state in `reset`, and starts threads on first use."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        # The old lock may be held by a thread that the forked process does not have.
        self._lock = threading.Lock()
