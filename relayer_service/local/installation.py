"""Install a lock file, with its progress: `python -m relayer_service.local.installation FILE`. No other package."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

PIN = re.compile(r"^[\w.-]+(\[.*\])?==", re.MULTILINE)
# Starts of the line that pip prints per package.
FETCHED = ("Collecting ", "Requirement already satisfied: ")
PIP = ["-m", "pip", "install", "--disable-pip-version-check", "--no-color", "--progress-bar=off", "--require-hashes"]
# Python compiles a module when it is first imported, and most never are.
PIP += ["--no-compile"]
# Progress is printed this many times.
PARTS = 4


def steps(lines: Iterable[str], total: int, seconds: Callable[[], float]) -> Iterator[str]:
    """Yield the progress lines to print, with the seconds passed."""
    fetched = 0
    for line in lines:
        if line.startswith(FETCHED):
            fetched += 1
            if fetched * PARTS // total > (fetched - 1) * PARTS // total:
                yield f"{seconds():4.0f} s  fetched {fetched} of {total}"
        elif line.startswith("Installing collected packages"):
            yield f"{seconds():4.0f} s  installing them"


def main(requirements: str) -> int:
    started = time.monotonic()
    total = len(PIN.findall(Path(requirements).read_text()))
    print(f"Installing {total} packages, which takes a minute or two", flush=True)
    command = [sys.executable, *PIP, "-r", requirements]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as pip:
        assert pip.stdout
        for step in steps(pip.stdout, total, lambda: time.monotonic() - started):
            print(step, flush=True)
    if pip.returncode == 0:
        print(f"{time.monotonic() - started:4.0f} s  done", flush=True)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
