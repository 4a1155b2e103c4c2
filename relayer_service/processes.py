"""Coordination of processes: they stop with their parent, and wait for the banner of `make run`."""

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial

# How long a stopping web process answers with `Connection: close`, in the first half on new connections too. Must be
# longer than a proxy's keep-alive to this service.
DRAIN_SECONDS = 2
# How long a client may take to send a request's head, stay idle, or leave its response unread. Shorter than the stop
# timeout, so that no client gets the process killed.
CLIENT_TIMEOUT_SECONDS = 20
# How long a new web process waits before it checks the workers: those that start with it beat within this time.
WATCH_AFTER_SECONDS = 40
# From Linux's prctl.h.
PR_SET_PDEATHSIG = 1

unblock_stop = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, {signal.SIGTERM})


def block_stop_while_forking() -> None:
    """Block SIGTERM in forked processes until they call `unblock_stop`: one that arrives earlier would be lost."""
    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, {signal.SIGTERM})
    os.register_at_fork(before=block, after_in_parent=unblock_stop)


def signal_when_parent_dies(number: int) -> None:
    """Request a signal from the kernel for when the parent exits; send it now if it already has. Linux only."""
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
    """Wait until `make run` has printed its banner; a replacement process does not wait."""
    if "START_GATE" in os.environ:
        with suppress(OSError), socket.socket(fileno=int(os.environ["START_GATE"])) as gate:
            gate.sendall(b".")
            gate.recv(1)
