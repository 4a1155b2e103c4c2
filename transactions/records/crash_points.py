"""Named steps of sending, at which tests end the process. In production, nothing happens at a step."""

import os
import signal

# `CRASH_AT=committed:2` kills the process when it reaches the step `committed` for the second time.
_name, _, _count = os.environ.get("CRASH_AT", "").partition(":")
_left = int(_count or 1)


def step(name: str) -> None:
    if name == _name:
        _reached()


def _reached() -> None:
    global _left  # one count per process
    _left -= 1
    if not _left:
        os.kill(os.getpid(), signal.SIGKILL)
