"""What Linux knows of processes, from /proc."""

import os
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
PAGE_KILOBYTES = os.sysconf("SC_PAGE_SIZE") // 1024
# Helpers of Python's multiprocessing, which do nothing of the work.
HELPERS = (b"resource_tracker", b"forkserver")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run, without helpers."""
    found = [int(child) for file in (PROC / f"{pid}/task").glob("*/children") for child in file.read_text().split()]
    return [child for child in found if not any(name in command(child) for name in HELPERS)]


def by_age(pids: list[int]) -> list[int]:
    """Return processes that run, the oldest first."""
    started = {pid: start_of(pid) for pid in pids}
    return sorted((pid for pid in pids if started[pid]), key=lambda pid: started[pid])


def command(pid: int) -> bytes:
    with suppress(OSError):
        return (PROC / f"{pid}/cmdline").read_bytes()
    return b""


def start_of(pid: int) -> int:
    """Return when a process was started, in ticks since the machine was; 0 if it has ended."""
    with suppress(OSError):
        # After the name, which may have any character.
        return int((PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def resident_kilobytes(pid: int) -> int:
    """Return the memory that a process holds; 0 if it has ended."""
    with suppress(OSError):
        return int((PROC / f"{pid}/statm").read_text().split()[1]) * PAGE_KILOBYTES
    return 0
