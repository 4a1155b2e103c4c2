"""The last release's code on this release's schema: what it writes while an upgrade is in progress, and after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from relayer_service.observability.call_counts import REPLACED, CallCount
from relayers.models import NO_READINGS, Relayer, RelayerHealth
from tests import databases, processes, settings
from tests.concurrency import PATIENCE_SECONDS
from tests.relayers import factories
from tests.servers import PROJECT
from tests.transactions.rest.requests import TRANSFER
from tests.upgrade import release
from transactions.models import IS_IN_STATUS, Transaction

AT = datetime(2026, 11, 16, tzinfo=UTC)
NOW, LATER = AT + timedelta(minutes=1), AT + timedelta(minutes=2)
LEASE = uuid.UUID(int=1)
DISABLED = {"system_disabled": True, "disabled_reason_type": "NonceSyncFailed", "disabled_reason_details": "Why."}

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
        # It does not know the labels, and so accepts nothing.
        assert send(old, ["b", TRANSFER], labeled, ["c", TRANSFER]) == [second, [400, None], [409, None]]
        assert send(new, labeled, ["c", TRANSFER]) == [third, [409, None]]
        assert Transaction.objects.using(alias).count() == 3


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_transactions_that_the_last_release_ends_are_listed_by_their_status(tmp_path: Path) -> None:
    at = datetime(2026, 11, 16, tzinfo=UTC)
    with databases.empty("ended", tmp_path) as alias:
        executor = MigrationExecutor(connections[alias])
        # These models write none of the columns that follow.
        old = executor.migrate([("transactions", "0018_transaction_requester")]).apps
        rows = old.get_model("transactions", "Transaction")._base_manager.using(alias)
        lane = old.get_model("transactions", "Lane")._base_manager.using(alias).create(chain_id=1, address="0x1")
        pending = rows.create(lane=lane, valid_until=at)
        targets = [[("transactions", "0021_fill_unsuccessful")], executor.loader.graph.leaf_nodes("transactions")]
        for target in [[], *targets]:
            if target:
                MigrationExecutor(connections[alias]).migrate(target)
            rows.create(lane=lane, valid_until=at, status="failed", finished_at=at)
        rows.filter(pk=pending.pk).update(status="canceled", finished_at=at)
        new = Transaction.objects.using(alias)
        found = {status: new.filter(condition).count() for status, condition in IS_IN_STATUS.items()}
    assert {status: count for status, count in found.items() if count} == {"failed": 3, "canceled": 1}


@pytest.fixture(scope="module")
def upgraded(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Any]]:
    """The name of a database that was upgraded with a relayer in it, and the last release's model of relayers."""
    with django_db_blocker.unblock(), databases.empty("both", tmp_path_factory.mktemp("both")) as alias:
        executor = MigrationExecutor(connections[alias])
        old = executor.migrate([("relayers", "0023_other_address")]).apps
        signer = old.get_model("signers", "Signer")._base_manager.using(alias).create(identifier="s", type="plain")
        rows = old.get_model("relayers", "Relayer")._base_manager.using(alias)
        values = {"name": "R", "network": "sepolia", "address": "0x1", "signer": signer}
        rows.create(identifier="before", **values, due_at=AT, nonce=7, balance_text="5", checked_at=AT)
        MigrationExecutor(connections[alias]).migrate(executor.loader.graph.leaf_nodes("relayers"))
        rows.create(identifier="after", **values, due_at=AT, nonce=8)
        yield alias, rows


@pytest.fixture
def both(upgraded: tuple[str, Any]) -> Both:
    """Relayers as the last release and this one read and write them, in one database; each test is rolled back."""
    alias, rows = upgraded
    return Both(rows, RelayerHealth.objects.using(alias))


@dataclass
class Both:
    old: Any
    new: Any

    def of_old(self, name: str, *columns: str) -> tuple[Any, ...]:
        return tuple(self.old.filter(identifier=name).values_list(*columns).get())

    def of_new(self, name: str, *columns: str) -> tuple[Any, ...]:
        return tuple(self.new.filter(relayer__identifier=name).values_list(*columns).get())


@pytest.mark.django_db(databases=["default", "both"])
def test_relayers_of_the_last_release_have_their_health(both: Both) -> None:
    columns = ("network", "due_at", "nonce", "balance_text", "checked_at", "lease")
    assert both.of_new("before", *columns) == ("sepolia", AT, 7, "5", AT, None)
    assert both.of_new("after", *columns) == ("sepolia", AT, 8, "", None, None)
    both.old.filter(identifier="after").delete()
    assert both.new.count() == 1


@pytest.mark.django_db(databases=["default", "both"])
def test_a_check_of_the_last_release_is_read_by_this_one_and_ends_its_check(both: Both) -> None:
    both.new.update(lease=LEASE, leased_until=LATER, due_at=NOW, balance_text="6", nonce=9)
    # A claim is no result.
    both.old.filter(identifier="before").update(lease=LEASE, leased_until=LATER)
    assert both.of_new("before", "lease", "due_at") == (LEASE, NOW)
    both.old.filter(identifier="before").update(lease=None, due_at=LATER, checked_at=NOW, **DISABLED)
    columns = ("lease", "due_at", "checked_at", *DISABLED)
    assert both.of_new("before", *columns) == (None, NOW, NOW, *DISABLED.values())
    # What it has not changed may be older.
    assert both.of_new("before", "nonce", "balance_text") == (9, "6")
    assert both.of_new("after", "lease", "system_disabled") == (LEASE, False)
    # Staff have changed it.
    both.old.filter(identifier="before").update(due_at=AT, lease=None, nonce=None)
    assert both.of_new("before", "due_at", "nonce") == (AT, None)


@pytest.mark.django_db(databases=["default", "both"])
def test_a_state_that_this_release_finds_is_read_by_the_last_one_and_ends_its_check(both: Both) -> None:
    both.old.update(lease=LEASE, leased_until=LATER)
    checked = {"lease": None, "due_at": LATER, "checked_at": NOW}
    both.new.filter(relayer__identifier="before").update(**checked, nonce=9, balance_text="6")
    # Readings alone are not written twice.
    columns = ("lease", "nonce", "balance_text", "checked_at", "system_disabled")
    assert both.of_old("before", *columns) == (LEASE, 7, "5", AT, False)
    both.new.filter(relayer__identifier="before").update(**checked | {"checked_at": LATER}, **DISABLED)
    assert both.of_old("before", *columns) == (None, 9, "6", LATER, True)
    assert both.of_new("before", "nonce", "system_disabled", "checked_at", "due_at") == (9, True, LATER, LATER)
    assert both.of_old("after", "lease", "system_disabled") == (LEASE, False)


@pytest.mark.django_db(databases=["default", "both"])
def test_a_change_by_staff_of_this_release_ends_a_check_of_the_last_one(both: Both) -> None:
    both.old.update(due_at=LATER, checked_at=NOW)
    both.old.update(lease=LEASE, leased_until=LATER)
    both.new.filter(relayer__identifier="before").update(lease=None, due_at=NOW, **NO_READINGS)
    assert both.of_old("before", "lease", "due_at", "nonce", "balance_text") == (None, NOW, None, "")
    both.new.filter(relayer__identifier="after").update(due_at=NOW)
    assert both.of_old("after", "lease", "due_at") == (LEASE, LATER)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_calls_that_the_last_release_counted_are_shown_and_keep_no_relayer(tmp_path: Path) -> None:
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    ago = hour - timedelta(hours=1)
    numbers = {"slowest_milliseconds": 90, "up_to_100_ms": 3}
    node = {"answered_at": hour, "failed_at": ago, "last_fault": "timed out", "head": 7, "head_at": ago}
    with databases.empty("counted", tmp_path) as alias:
        executor = MigrationExecutor(connections[alias])
        old = executor.migrate([("relayers", "0029_running_relayers"), ("rpc", "0007_call_durations")]).apps
        signer = old.get_model("signers", "Signer")._base_manager.using(alias).create(identifier="s", type="plain")
        relayers = old.get_model("relayers", "Relayer")._base_manager.using(alias)
        relayer = relayers.create(identifier="r", name="R", network="sepolia", address="0x1", signer=signer)
        minutes = old.get_model("rpc", "CallCount")._base_manager.using(alias)
        # The last minute of an hour, the first one of the next without durations, and one that is no longer kept.
        for minute in (ago, hour - timedelta(minutes=1)):
            minutes.create(relayer=relayer, minute=minute, method="m", outcome="ok", calls=3, **numbers)
        minutes.create(relayer=relayer, minute=hour, method="m", outcome="ok", calls=2)
        minutes.create(relayer=relayer, minute=hour - timedelta(days=32), method="m", outcome="ok", calls=1)
        hours = old.get_model("rpc", "CallHour")._base_manager.using(alias)
        hours.create(hour=ago, outcome="-32000", calls=6, **numbers)
        slots = old.get_model("relayers", "NodeCalls")._base_manager.using(alias)
        slots.create(node="n", slot=hour, calls=3, failed=1, **numbers, **node)
        MigrationExecutor(connections[alias]).migrate(executor.loader.graph.leaf_nodes())
        # Until it is replaced, the last release counts on.
        minutes.create(relayer=relayer, minute=ago, method="n", outcome="ok", calls=1)
        RelayerHealth.objects.using(alias).all().delete()
        Relayer.objects.using(alias).all().delete()
        columns = ("kind", "subject", "start", "method", "outcome", "calls", *numbers, *REPLACED)
        found = list(CallCount.objects.using(alias).order_by("kind", "start", "-outcome").values_list(*columns))
    subject = str(relayer.pk)
    assert found == [
        ("node", "n", hour, "", "ok", 2, 90, 3, hour, 7, ago, ""),
        ("node", "n", hour, "", "failed", 1, 0, 0, ago, None, None, "timed out"),
        ("relayer", subject, ago, "m", "ok", 6, 90, 6, None, None, None, ""),
        ("relayer", subject, hour, "m", "ok", 2, 0, 0, None, None, None, ""),
        ("relayers", "", ago, "", "-32000", 6, 90, 3, None, None, None, ""),
    ]


@pytest.mark.django_db
def test_a_relayer_of_this_release_is_due_for_the_last_one() -> None:
    relayer = factories.relayer()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT due_at IS NOT NULL, balance_text FROM relayers_relayer WHERE sequence = %s", [relayer.pk]
        )
        assert cursor.fetchone() == (True, "")


def test_a_checkout_without_the_last_release_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "last_release"
    file.write_text("0" * 40)
    monkeypatch.setattr(release, "FILE", file)
    with pytest.raises(release.NoHistory, match=r"^The last release 0{40} cannot be read: .*--unshallow"):
        release.extract(tmp_path / "old")
