from datetime import UTC, datetime

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from notifications.models import Notification
from relayer_service.database.updating import update_each

pytestmark = [pytest.mark.django_db, pytest.mark.both_engines]


def test_each_row_gets_its_own_values_in_one_statement_and_others_stay(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    create = Notification.objects.create
    first, second, _ = (create(identifier=name, url=f"https://{name}.example.com") for name in "abc")
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    first.url, first.enabled, first.failing_since = "https://1.example.com", False, at
    second.url, second.identifier = "https://2.example.com/?a=%25s", "not saved"
    with transaction.atomic(), django_assert_num_queries(1):
        update_each([first, second], {"url", "enabled", "failing_since"})
    columns = ("identifier", "url", "enabled", "failing_since")
    assert list(Notification.objects.order_by("identifier").values_list(*columns)) == [
        ("a", "https://1.example.com", False, at),
        ("b", "https://2.example.com/?a=%25s", True, None),
        ("c", "https://c.example.com", True, None),
    ]
    with django_assert_num_queries(0):
        update_each([], ["url"])
