"""The last release's code on this release's schema: what it writes while an upgrade is in progress, and after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from tests import databases, processes, settings
from tests.concurrency import PATIENCE_SECONDS
from tests.servers import PROJECT
from tests.transactions.rest.requests import TRANSFER
from tests.upgrade import release
from transactions.models import Transaction

WRITES, SENDS = (Path(__file__).with_name(name) for name in ("writes.py", "sends.py"))
# What takes long on a busy machine is no failure.
PATIENT = dict.fromkeys(("DATABASE_LOCK_TIMEOUT_MS", "DATABASE_STATEMENT_TIMEOUT_MS"), str(PATIENCE_SECONDS * 1000))
PATIENT |= dict.fromkeys(("NODE_ATTEMPT_SECONDS", "NODE_DEADLINE_SECONDS", "WEBHOOK_TIMEOUT_SECONDS"), "60")


@dataclass
class Checkout:
    """The code of a release, with a database that it shares with another."""

    code: Path
    env: dict[str, str]

    def migrate(self) -> None:
        command = [sys.executable, "manage.py", "migrate", "--noinput"]
        done = subprocess.run(command, cwd=self.code, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def writing(old: Checkout, report: dict[str, Any]) -> Iterator[None]:
    """Have the old code write to all tables meanwhile, and a whole round after it; fill the report."""
    command = [sys.executable, "-P", str(WRITES)]
    with (
        (old.code / "log").open("ab") as log,
        subprocess.Popen(
            command, cwd=old.code, env=old.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "round 1\n"
            yield
            process.stdin.close()
            *_, last = process.stdout
            report.update(json.loads(last))
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


def checkout(code: Path, url: str, data_dir: Path) -> Checkout:
    env = os.environ | settings.SECRETS | PATIENT
    env |= {"DJANGO_SETTINGS_MODULE": "relayer_service.settings", "PROFILE": "local", "EXTENSIONS": "lifecycle"}
    env |= {"PYTHONPATH": str(code), "DATABASE_URL": url, "DATA_DIR": str(data_dir), "REDIS_URL": ""}
    return Checkout(code, env)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_the_last_release_writes_to_every_table_during_and_after_migrate(tmp_path: Path) -> None:
    release.extract(tmp_path / "old")
    with databases.empty("shared", tmp_path) as alias:
        url = processes.database_url(alias)
        old, new = (checkout(code, url, tmp_path) for code in (tmp_path / "old", PROJECT))
        old.migrate()
        before: dict[str, Any] = {"failures": []}
        during: dict[str, Any] = {}
        if connection.vendor == "sqlite":
            # It has one writer at a time: requests and a migration wait for each other.
            with writing(old, before):
                pass
            new.migrate()
        with writing(old, during):
            if connection.vendor == "postgresql":
                new.migrate()
    assert Path(during["code"]).is_relative_to(tmp_path / "old")
    assert before["failures"] == during["failures"] == []
    assert set(during["tables"]) - set(during["inserted"]) == set()


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_key_is_the_same_request_for_both_releases(tmp_path: Path) -> None:
    release.extract(tmp_path / "old")
    with databases.migrated("keys", tmp_path) as alias:
        url = processes.database_url(alias)
        old, new = (checkout(code, url, tmp_path) for code in (tmp_path / "old", PROJECT))

        def send(code: Checkout, *requests: list[Any]) -> list[list[Any]]:
            command = [sys.executable, "-P", str(SENDS), json.dumps(requests)]
            env = code.env | {"EXTENSIONS": "transactions"}
            done = subprocess.run(command, cwd=code.code, env=env, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            answers: list[list[Any]] = json.loads(done.stdout)
            assert Path(answers.pop()[0]).is_relative_to(code.code)
            return answers

        labeled = ["c", {**TRANSFER, "external_id": "invoice-1", "metadata": {"shop": "berlin"}}]
        [first] = send(old, ["a", TRANSFER])
        again, second, third = send(new, ["a", TRANSFER], ["b", TRANSFER], labeled)
        assert [each[0] for each in (first, again, second, third)] == [200] * 4
        assert again[1] == first[1]
        for code in (old, new):
            assert send(code, ["b", TRANSFER], labeled, ["c", TRANSFER]) == [second, third, [409, None]]
        assert Transaction.objects.using(alias).count() == 3


def test_a_checkout_without_the_last_release_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "last_release"
    file.write_text("0" * 40)
    monkeypatch.setattr(release, "FILE", file)
    with pytest.raises(release.NoHistory, match=r"^The last release 0{40} cannot be read: .*--unshallow"):
        release.extract(tmp_path / "old")
