"""A standby of the tests' PostgreSQL server that lags behind, and is promoted when the primary is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection

from tests.servers import START_SECONDS

# The system user that servers run as which were started by root.
SYSTEM_USER = "embedded_postgres"
# For a busy machine, as in `tests.servers`.
WAIT = ["-w", "-t", str(START_SECONDS)]


class Standby:
    """A copy of the server as it was, on its own; what is committed after the copy does not reach it."""

    def __init__(self, folder: Path) -> None:
        # It warns of an environment without XDG_RUNTIME_DIR, where it takes another folder.
        with warnings.catch_warnings(action="ignore"):
            from embedded_postgres._commands import POSTGRES_BIN_PATH

        self._programs: Path = POSTGRES_BIN_PATH
        self._user = SYSTEM_USER if os.geteuid() == 0 else None
        self.folder, self.data, self.output = folder, folder / "data", folder.with_name(f"{folder.name}.out")
        if self._user:
            shutil.chown(folder, self._user)
        server = connection.settings_dict
        where = ["-h", server["HOST"], "-U", server["USER"], *(["-p", server["PORT"]] if server["PORT"] else [])]
        self._run("pg_basebackup", *where, "-D", self.data, "-R", "-X", "stream", "-c", "fast")

    def promote(self) -> None:
        """Make it a primary, on a new timeline.

        A hot standby, which nobody needs, would wait for the end of other tests' transactions with many savepoints.
        """
        options = f"-h '' -k {self.folder} -p 5432 -c primary_conninfo='' -c hot_standby=off"
        self._run("pg_ctl", "-D", self.data, *WAIT, "-l", self.folder / "log", "-o", options, "start")
        self._run("pg_ctl", "-D", self.data, *WAIT, "promote")

    def stop(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", self.data, *WAIT, "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: Any) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        # Not captured: the server would inherit the pipe, and its end would be waited for.
        with self.output.open("ab") as output:
            process = subprocess.run(command, check=False, user=self._user, stdout=output, stderr=output, cwd="/")
        if process.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program}: {self.output.read_text()}{log.read_text() if log.exists() else ''}")


@contextmanager
def standby() -> Iterator[Standby]:
    """Yield a copy of the server as it is now."""
    folder = Path(tempfile.mkdtemp(prefix="relayer-standby-"))
    found = Standby(folder)
    try:
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder)
        found.output.unlink()


@contextmanager
def failed_over(to: Standby) -> Iterator[None]:
    """Have this process connect to a promoted standby instead of its server."""
    before = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    _connect_to({"HOST": str(to.folder), "PORT": "5432"})
    try:
        yield
    finally:
        _connect_to(before)


def _connect_to(server: dict[str, Any]) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # of PostgreSQL
    connection.settings_dict.update(server)
