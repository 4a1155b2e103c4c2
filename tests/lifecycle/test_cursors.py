"""Cursors of lists that grow while they are read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.signing import Signer
from django.db import connection
from django.test.utils import CaptureQueriesContext

from notifications.models import Delivery, Notification
from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tokens.writes import issue
from transactions.models import Lane, Status, Transaction

DELIVERIES = "/api/v1/notifications/hook-1/deliveries"
TRANSACTIONS = "/api/v1/relayers/relayer-1/transactions"
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
INVALID = "cursor: invalid; use the next_cursor of an earlier response of this list"


@pytest.fixture(autouse=True)
def extensions(settings: Any) -> None:
    settings.EXTENSIONS = ["lifecycle", "transactions"]


@pytest.fixture
def reader(user: User) -> Api:
    return Api(issue(name="reader", user=user, scopes=["read"])[1])


@pytest.fixture
def hook(db: None) -> Notification:
    hook = factories.notification("hook-1")
    add_deliveries(hook, *range(5))
    return hook


@pytest.fixture
def lane(db: None) -> Lane:
    lane = lanes.lane(factories.relayer())
    for number in range(5):
        lanes.transaction(lane, status=Status.EXPIRED if number % 2 else Status.PENDING)
    return lane


def add_deliveries(hook: Notification, *numbers: int) -> None:
    for number in numbers:
        Delivery.objects.create(
            identifier=f"msg_{number}",
            notification=hook,
            event="relayer.paused",
            body=b"{}",
            state="failed" if number % 2 else "delivered",
            # Two at the same time, as of events that are emitted together.
            created_at=MOMENT + timedelta(seconds=number // 2),
        )


def ids(answer: Any) -> list[str]:
    return [each["id"] for each in answer.body["data"]]


def test_deliveries_are_read_to_the_end_while_others_are_added(reader: Api, hook: Notification) -> None:
    first = reader.get(f"{DELIVERIES}?per_page=2")
    pagination = first.body["pagination"]
    cursor = pagination.pop("next_cursor")
    assert (ids(first), pagination) == (["msg_4", "msg_3"], {"current_page": 1, "per_page": 2, "total_items": 5})
    add_deliveries(hook, 5, 6)
    # Also without the last row that was read.
    Delivery.objects.filter(identifier="msg_3").delete()
    second = reader.get(f"{DELIVERIES}?per_page=2&cursor={cursor}")
    pagination = second.body["pagination"]
    cursor = pagination.pop("next_cursor")
    assert (ids(second), pagination) == (["msg_2", "msg_1"], {"per_page": 2})
    last = reader.get(f"{DELIVERIES}/?per_page=2&cursor={cursor}")
    assert (ids(last), last.body["pagination"]) == (["msg_0"], {"per_page": 2})
    for query in ("per_page=6", "per_page=0", "per_page=3&page=3"):
        assert "next_cursor" not in reader.get(f"{DELIVERIES}?{query}").body["pagination"], query


def test_transactions_are_read_to_the_end_while_others_are_added(reader: Api, lane: Lane) -> None:
    expected = list(Transaction.objects.order_by("-sequence").values_list("identifier", flat=True))
    found, query = [], "per_page=2&page=1"
    while query:
        answer = reader.get(f"{TRANSACTIONS}?{query}")
        found.append(ids(answer))
        lanes.transaction(lane)
        cursor = answer.body["pagination"].get("next_cursor")
        query = f"per_page=2&cursor={cursor}" if cursor else ""
    assert found == [expected[:2], expected[2:4], expected[4:]]


@pytest.mark.parametrize("path", [DELIVERIES, TRANSACTIONS])
def test_a_cursor_that_the_list_did_not_return_is_refused(
    reader: Api, hook: Notification, lane: Lane, path: str
) -> None:
    other = TRANSACTIONS if path == DELIVERIES else DELIVERIES
    cursor, of_other = (reader.get(f"{each}?per_page=1").body["pagination"]["next_cursor"] for each in (path, other))
    forged = Signer(key="another key", sep=".", salt=f"cursor:{path}").sign_object([1])
    for text in ("", "1", "%00", "%ff", cursor[:-1], f"x{cursor}", cursor.partition(".")[0], of_other, forged):
        answer = reader.get(f"{path}?cursor={text}")
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(INVALID)), text
    faults = {
        f"cursor={cursor}&page=1": "cursor: cannot be combined with page",
        f"cursor={cursor}&cursor={cursor}": "cursor: given more than once",
    }
    for query, fault in faults.items():
        answer = reader.get(f"{path}?{query}")
        assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))


@pytest.mark.parametrize("is_first", [True, False])
def test_deliveries_are_not_read_past_those_of_other_notifications(
    reader: Api, hook: Notification, is_first: bool
) -> None:
    query = "per_page=1"
    if not is_first:
        query += f"&cursor={reader.get(f'{DELIVERIES}?{query}').body['pagination']['next_cursor']}"
    with CaptureQueriesContext(connection) as queries:
        reader.get(f"{DELIVERIES}?{query}")
    (page,) = (
        each["sql"] for each in queries if "ORDER BY" in each["sql"] and "notifications_delivery" in each["sql"]
    )
    with connection.cursor() as cursor:
        # Without the indexes of their notification, only a sort gives the order: no index of all deliveries has it.
        for name in ("delivery_of_webhook", "delivery_by_target", "delivery_due"):
            cursor.execute(f"DROP INDEX {name}")
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(f"EXPLAIN {'QUERY PLAN' if connection.vendor == 'sqlite' else ''} {page}")
        plan = str(cursor.fetchall())
    assert "Sort" in plan or "TEMP B-TREE" in plan


@pytest.mark.parametrize(
    ("path", "query", "page_queries"), [(DELIVERIES, "state=failed", 3), (TRANSACTIONS, "status=expired", 4)]
)
def test_a_cursor_is_combined_with_filters_and_saves_the_count(
    reader: Api, hook: Notification, lane: Lane, path: str, query: str, page_queries: int
) -> None:
    whole = ids(reader.get(f"{path}?{query}"))
    first = reader.get(f"{path}?{query}&per_page=1")
    cursor = first.body["pagination"]["next_cursor"]
    second = reader.get(f"{path}?{query}&cursor={cursor}")
    assert [ids(first), ids(second)] == [whole[:1], whole[1:]]
    assert len(whole) == 2
    cursor = reader.get(f"{path}?per_page=1").body["pagination"]["next_cursor"]
    counts = []
    for place in ("page=2", f"cursor={cursor}"):
        with CaptureQueriesContext(connection) as queries:
            reader.get(f"{path}?per_page=2&{place}")
        counts.append(len(queries))
    assert counts == [page_queries, page_queries - 1]
