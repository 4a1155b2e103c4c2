"""The databases that areas measure on: prepared once for a run, then copied."""

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.servers import PROJECT

STOCK_SETTINGS = "benchmarks.stock.settings"
STOCK_TOKEN = "0123456789abcdef0123456789abcdef01234567"
TEMPLATE = "relayer_benchmark"
SQLITE_FILE = "db.sqlite3"
# All that processes get of this one's environment: no setting of the service.
KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")
SECRETS = {
    "SECRET_KEY": "a-key-for-benchmarks-only-0123456789-abcdefghijklmnopqrstuvwxyz",
    "ENCRYPTION_KEYS": "1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "TOKEN_PEPPERS": "1:Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=",
}


def plain_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in KEPT if name in os.environ}


@dataclass(frozen=True)
class Database:
    """A database of the service, with the folder of its processes and a token that it knows."""

    url: str
    folder: Path
    token: str

    @property
    def environment(self) -> dict[str, str]:
        """The shipped configuration, over plain HTTP, with limits that no measurement reaches."""
        return (
            plain_environment()
            | SECRETS
            | {
                "DJANGO_SETTINGS_MODULE": "relayer_service.settings",
                "DATABASE_URL": self.url,
                "DATA_DIR": str(self.folder),
                "ALLOWED_HOSTS": "127.0.0.1",
                "HTTPS_REDIRECT": "false",
                # Those who measure the admin sign in without a password.
                "REQUIRE_SECOND_FACTOR": "none",
                "RATE_LIMIT_LIST_RELAYERS": "1000000/s",
                "RATE_LIMIT_RPC": "1000000/s",
                "RATE_LIMIT_SEND": "1000000/s",
                "TRANSACTION_BYTES_PER_DAY": str(2**50),
            }
        )

    def connect(self) -> Any:
        return psycopg.connect(self.url, autocommit=True)


@dataclass(frozen=True)
class Bench:
    """What a run gives to each of its areas."""

    fast: bool
    server: str
    folder: Path
    postgresql_token: str
    sqlite_token: str

    @contextmanager
    def postgresql(self) -> Iterator[Database]:
        """Yield a database of its own, in which nothing but the token is."""
        name, folder = f"{TEMPLATE}_{secrets.token_hex(4)}", self.new_folder()
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
            try:
                yield Database(named(self.server, name), folder, self.postgresql_token)
            finally:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def sqlite(self) -> Database:
        folder = self.new_folder()
        for file in self.folder.glob("*.sqlite3"):
            shutil.copy(file, folder)
        return Database("", folder, self.sqlite_token)

    def new_folder(self) -> Path:
        folder = self.folder / secrets.token_hex(4)
        # Where static files would be collected.
        (folder / "static").mkdir(parents=True)
        return folder

    def as_json(self) -> str:
        return json.dumps({**vars(self), "folder": str(self.folder)})

    @classmethod
    def from_json(cls, text: str) -> "Bench":
        values = json.loads(text)
        return cls(**{**values, "folder": Path(values["folder"])})


def named(server: str, name: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def prepare(server: str, folder: Path, *, fast: bool) -> Bench:
    """Make the databases that areas copy: that of PostgreSQL with the tables of stock too."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {TEMPLATE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {TEMPLATE}")
    template, sqlite = Database(named(server, TEMPLATE), folder, ""), Database("", folder, "")
    with ThreadPoolExecutor() as pool:
        both = [each.environment for each in (template, sqlite)]
        tokens = list(pool.map(run_apart, repeat(["-m", "benchmarks.databases"]), both))
    migrate = ["-m", "django", "migrate", "--run-syncdb", "--verbosity=0"]
    run_apart(migrate, template.environment | {"DJANGO_SETTINGS_MODULE": STOCK_SETTINGS})
    with template.connect() as connection:
        add = "INSERT INTO authtoken_token (key, created, user_id) SELECT %s, now(), min(id) FROM auth_user"
        connection.execute(add, [STOCK_TOKEN])
    return Bench(fast, server, folder, *tokens)


def run_apart(arguments: list[str], environment: dict[str, str], project: Path = PROJECT) -> str:
    """Run Python with these settings in a checkout, and return the last line that it printed."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, cwd=project, stdout=subprocess.PIPE, text=True, check=True)
    return (done.stdout.splitlines() or [""])[-1]


def main() -> None:
    """Migrate the database of this process, and print a token."""
    import django
    from django.core.management import call_command

    django.setup()
    from django.contrib.auth.models import User

    from relayer_service.background.tasks import prepare_queue
    from tokens.writes import issue

    call_command("migrate", verbosity=0)
    prepare_queue()
    user = User.objects.create_superuser("benchmarks")
    print(issue(name="benchmarks", user=user)[1])


if __name__ == "__main__":
    main()
