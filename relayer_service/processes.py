"""Coordination of the service's processes: they end with their parent, and wait for the banner of `make run`."""

import ctypes
import multiprocessing
import os
import socket
import sys
from contextlib import suppress

# How long a stopping web process answers with `Connection: close`, the first half on new connections too. A proxy's
# keep-alive to this service must be shorter.
DRAIN_SECONDS = 2
# Linux' prctl: send a process a signal when its parent has died.
PR_SET_PDEATHSIG = 1


def signal_when_parent_dies(number: int) -> None:
    """Have the kernel send this process a signal when its parent ends, or now if it has; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)
        parent = multiprocessing.parent_process()
        if parent is not None and os.getppid() != parent.pid:
            os.kill(os.getpid(), number)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def wait_for_banner() -> None:
    """Let `make run` print its banner before the first answer; later processes find the gate open."""
    if "START_GATE" in os.environ:
        with suppress(OSError), socket.socket(fileno=int(os.environ["START_GATE"])) as gate:
            gate.sendall(b".")
            gate.recv(1)
