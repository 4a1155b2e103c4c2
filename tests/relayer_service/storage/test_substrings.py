"""Rows are found by any part of a column, on both engines alike, and by an index where that can be built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from relayer_service.storage import substrings, ttl_cache
from relayers.models import Relayer, RelayerHealth
from tests.relayers import factories

LIST = "/admin/relayers/relayer/"
COLUMNS = Relayer.search_indexes["relayer_search"]
NOTE = "pg_trgm is not installed: the search only matches the start of texts."


def found(text: str) -> list[str]:
    rows = Relayer.objects.filter(substrings.contains(Relayer, COLUMNS, text)).order_by("identifier")
    return list(rows.values_list("identifier", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "identifiers"),
    [
        ("roll", ["b-pay_roll"]),
        ("PAY_R", ["b-pay_roll"]),
        ("50%", ["c"]),
        ("5_%", []),
        ("\\", []),
        ("ü", ["c"]),
        ("Ü", []),
        ("poli", ["c"]),
        ("cafeBABE", ["a"]),
        ("0x1111…babe", ["a"]),
        ("0X1111...caFEbabe", ["a"]),
        ("0x1112…babe", []),
        ("0x1111…bab", []),
        ("a\nAlpha", []),
        ("\0", []),
    ],
)
def test_a_part_finds_what_has_it_in_upper_or_lower_case(text: str, identifiers: list[str]) -> None:
    factories.relayer(identifier="a", name="alpha", network="mainnet", address="0x" + "1" * 32 + "cafeBabe")
    factories.relayer(identifier="b-pay_roll", name="beta", network="mainnet", address="0x" + "2" * 40)
    factories.relayer(identifier="c", name="50% für c", network="sepolia", address="")
    assert found(text) == identifiers


@pytest.mark.django_db
def test_a_part_is_found_by_the_index() -> None:
    assert substrings.can_search(Relayer, COLUMNS)
    assert not substrings.can_search(Relayer, ["name"])
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_indexscan = off")
        plan = Relayer.objects.filter(substrings.contains(Relayer, COLUMNS, "roll")).order_by().explain()
        assert "Bitmap Index Scan on relayer_search_parts" in plan


@pytest.mark.django_db
def test_what_is_searched_follows_every_change_but_no_health_check() -> None:
    factories.relayer(identifier="a", name="first")
    factories.relayer(identifier="b", name="second")
    Relayer.objects.filter(identifier="a").update(name="third")
    assert [found(text) for text in ("first", "third", "second")] == [[], ["a"], ["b"]]
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("UPDATE relayer_search SET text = 'not written again'")
            RelayerHealth.objects.filter(relayer__identifier="a").update(nonce=7, checked_at=timezone.now())
            Relayer.objects.filter(identifier="b").delete()
            cursor.execute("SELECT text FROM relayer_search")
            assert cursor.fetchall() == [("not written again",)]


@contextmanager
def without_extension() -> Iterator[None]:
    """Drop the extension, and act as a role that cannot create it; the test database gets both back."""
    with connection.cursor() as cursor:
        for statement in ("DROP EXTENSION pg_trgm CASCADE", "CREATE ROLE no_creator", "SET ROLE no_creator"):
            cursor.execute(statement)
        try:
            yield
        finally:
            for statement in ("RESET ROLE", "DROP ROLE no_creator"):
                cursor.execute(statement)
            substrings.build(connection)
            ttl_cache.clear_all()


@pytest.mark.django_db(transaction=True)
def test_without_the_extension_prefixes_are_found_and_the_page_says_so(admin_client: Client) -> None:
    factories.relayer(identifier="eu-payroll", name="Payroll", network="sepolia")
    assert NOTE not in admin_client.get(LIST).content.decode()
    if connection.vendor == "sqlite":
        return
    with without_extension():
        assert not substrings.build(connection)
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")
        ttl_cache.clear_all()
        page = admin_client.get(f"{LIST}?q=payr")
        assert NOTE in page.content.decode()
        assert page.context["cl"].search_help_text == "The start of an ID, name, address or network"
        listed = {text: len(admin_client.get(f"{LIST}?q={text}").context["cl"].result_list) for text in TEXTS}
    assert listed == TEXTS
    # Built again once it is allowed.
    page = admin_client.get(f"{LIST}?q=roll")
    assert (NOTE in page.content.decode(), len(page.context["cl"].result_list)) == (False, 1)


# Numbers of rows found.
TEXTS = {"payr": 1, "eu-": 1, "sep": 1, "roll": 0, "polia": 0}


@pytest.mark.django_db(transaction=True)
def test_the_next_migrate_builds_a_missing_or_interrupted_index() -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE signer_search")
            cursor.execute(
                "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'relayer_search_parts'::regclass"
            )
            call_command("migrate", verbosity=0)
            cursor.execute(
                "SELECT indexrelid::regclass::text FROM pg_index "
                "WHERE indexrelid::regclass::text LIKE '%\\_search\\_parts' AND indisvalid ORDER BY 1"
            )
            built = [name for (name,) in cursor.fetchall()]
        assert built == [f"{name}_search_parts" for name in ("notification", "notification_url", "relayer", "signer")]
