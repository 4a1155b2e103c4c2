"""Rows are found by any part of a column, on both engines alike, and by an index where that can be built."""

import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor

from notifications.models import Notification
from relayer_service.database import substrings
from relayers.models import Relayer
from signers.models import Signer
from tests import databases
from tests.relayers import factories

pytestmark = pytest.mark.both_engines

COLUMNS = ["identifier", "name", "address", "network"]
SIGNER_COLUMNS = ["identifier", "verified_identity"]
SEARCH = ("signers", "0007_search_by_parts")


def found(text: str) -> list[str]:
    rows = Relayer.objects.filter(substrings.contains(COLUMNS, text)).order_by("identifier")
    return list(rows.values_list("identifier", flat=True))


PARTS = {
    "PAY_R": ["b-pay_roll"],
    "50%": ["c"],
    "5_%": [],
    "\\": [],
    "ü": ["c"],
    "Ü": [],
    "poli": ["c"],
    "cafeBABE": ["a"],
    "0x1111…babe": ["a"],
    "0X1111...caFEbabe": ["a"],
    "0x1112…babe": [],
    "0x1111…bab": [],
    "a\nAlpha": [],
    "\0": [],
}


@pytest.mark.django_db
def test_a_part_finds_what_has_it_in_upper_or_lower_case() -> None:
    factories.relayer(identifier="a", name="alpha", network="mainnet", address="0x" + "1" * 32 + "cafeBabe")
    factories.relayer(identifier="b-pay_roll", name="beta", network="mainnet", address="0x" + "2" * 40)
    factories.relayer(identifier="c", name="50% für c", network="sepolia", address="")
    assert {text: found(text) for text in PARTS} == PARTS


INDEXES = {
    "relayer_parts": Relayer.objects.filter(substrings.contains(COLUMNS, "roll")),
    "signer_parts": Signer.objects.filter(substrings.contains(SIGNER_COLUMNS, "roll")),
    "notification_parts": Notification.objects.filter(substrings.contains(["identifier"], "roll")),
    "notification_url_parts": Notification.objects.filter(substrings.contains(["identifier", "url"], "roll")),
}


@pytest.mark.postgresql
@pytest.mark.django_db
def test_a_part_is_found_by_the_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_indexscan = off")
    plans = {name: rows.order_by().explain() for name, rows in INDEXES.items()}
    assert [name for name, plan in plans.items() if f"Bitmap Index Scan on {name}" not in plan] == []


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_role_that_may_not_create_the_extension_migrates_without_the_index(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with databases.empty("limited", tmp_path) as alias, connections[alias].cursor() as cursor:
        MigrationExecutor(connections[alias]).migrate([("signers", "0001_squashed_0006_sorted_lists")])
        role = connections[alias].settings_dict["NAME"]
        cursor.execute(f"CREATE ROLE {role}; GRANT ALL ON django_migrations, django_migrations_id_seq TO {role}")
        try:
            cursor.execute(f"SET ROLE {role}")
            MigrationExecutor(connections[alias]).migrate([SEARCH])
            cursor.execute("RESET ROLE")
            assert "permission denied to create extension" in caplog.text
            Signer.objects.using(alias).create(identifier="payroll", type="plain", secrets={})
            assert Signer.objects.using(alias).filter(substrings.contains(SIGNER_COLUMNS, "roll")).exists()
            # The index follows once someone else has created it.
            cursor.execute("CREATE EXTENSION pg_trgm")
            statements = io.StringIO()
            call_command("sqlmigrate", *SEARCH, database=alias, stdout=statements)
            for statement in statements.getvalue().strip().split(";"):
                cursor.execute(statement)
            assert "signer_parts" in connections[alias].introspection.get_constraints(cursor, "signers_signer")
        finally:
            cursor.execute(f"RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")
