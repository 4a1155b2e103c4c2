"""The test databases of a run: the first process that needs one migrates it, and each works on a copy."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection


@contextmanager
def copied(folder: Path, process: str) -> Iterator[None]:
    """Connect this process to its copy; the last of the processes that share the folder drops what was copied."""
    creation: Any = connection.creation
    database: Any = connection.settings_dict
    name, migrated = database["NAME"], creation._get_test_db_name()
    users = folder / "database-users"
    with locked(folder):
        users.mkdir(exist_ok=True)
        if not any(users.iterdir()):
            creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
        database["NAME"] = migrated
        # SQLite's file is complete, and PostgreSQL's database can be copied, once nobody is connected.
        connection.close()
        creation.clone_test_db(process, verbosity=0, autoclobber=True)
        (users / process).touch()
    database["NAME"] = creation.get_test_db_clone_settings(process)["NAME"]
    database["TEST"]["NAME"] = migrated
    yield
    creation.destroy_test_db(name, verbosity=0)
    with locked(folder):
        (users / process).unlink()
        if not any(users.iterdir()):
            database["NAME"] = migrated
            creation.destroy_test_db(name, verbosity=0)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    with (folder / "databases.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
