"""Rows are found by the beginning of a column, on both engines alike and by an index."""

import pytest
from django.db import connection

from relayer_service.database.prefixes import COMPARED, CaseFolded, after, starts_with
from signers.models import Signer

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]


def make(*identifiers: str) -> None:
    Signer.objects.bulk_create([Signer(identifier=name, type="plain", secrets={}) for name in identifiers])


def found(text: str) -> list[str]:
    rows = Signer.objects.filter(starts_with("identifier", text)).order_by(CaseFolded("identifier"), "sequence")
    return list(rows.values_list("identifier", flat=True))


LONG = "x" * COMPARED
PREFIXES = {
    "ab": ["ab", "AB-2", "ab_3", "ABC"],
    "AB": ["ab", "AB-2", "ab_3", "ABC"],
    "ab_": ["ab_3"],
    "ab%": [],
    "b": [],
    "é": ["éa"],
    "\ud7ff": ["\ud7ffx"],
    "\U0010ffff": ["\U0010ffff\U0010ffff"],
    LONG: [f"{LONG}x", f"{LONG}y"],
    f"{LONG.upper()}Y": [f"{LONG}y"],
}


def test_a_prefix_finds_what_begins_with_it_in_upper_or_lower_case() -> None:
    make(
        "ABC", "ab", "AB-2", "ab_3", "cab", "éa", "\ud7ffx", "\ue000x", "\U0010ffff\U0010ffff", f"{LONG}x", f"{LONG}y"
    )
    assert {text: found(text) for text in PREFIXES} == PREFIXES


def test_nothing_comes_after_the_last_character() -> None:
    assert [after("a"), after("a\U0010ffff"), after("\ud7ff"), after("\U0010ffff")] == ["b", "b", "\ue000", ""]


def test_the_index_finds_and_sorts() -> None:
    make("ab", "cd")
    plan = plan_of(
        Signer.objects.filter(starts_with("identifier", "ab")).order_by(CaseFolded("identifier"), "sequence")
    )
    assert "signer_identifier_prefix" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


def plan_of(rows: object) -> str:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            # In a small table it would read all rows.
            cursor.execute("SET LOCAL enable_seqscan = off")
            cursor.execute("SET LOCAL enable_bitmapscan = off")
    return str(rows.explain())  # type: ignore[attr-defined]
