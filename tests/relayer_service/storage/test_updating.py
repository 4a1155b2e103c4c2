from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from notifications.models import Notification
from relayer_service.database.updating import update_each

pytestmark = pytest.mark.django_db


def targets() -> list[Notification]:
    return [Notification.objects.create(identifier=name, url=f"https://{name}.example.com") for name in "abc"]


def stored() -> list[tuple[str, str, bool, datetime | None]]:
    columns = ("identifier", "url", "enabled", "failing_since")
    return list(Notification.objects.order_by("identifier").values_list(*columns))


def test_each_row_gets_its_own_values_and_others_stay() -> None:
    first, second, _ = targets()
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    first.url, first.enabled, first.failing_since = "https://1.example.com", False, at
    second.url, second.identifier = "https://2.example.com/?a=%25s", "not saved"
    update_each([first, second], {"url", "enabled", "failing_since"})
    assert stored() == [
        ("a", "https://1.example.com", False, at),
        ("b", "https://2.example.com/?a=%25s", True, None),
        ("c", "https://c.example.com", True, None),
    ]


def test_many_rows_take_one_statement(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    rows = targets()
    with transaction.atomic(), django_assert_num_queries(1):
        update_each(rows, ["url"])


def test_no_rows_are_no_statement(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(0):
        update_each([], ["url"])
