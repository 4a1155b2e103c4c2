"""Which token can send and read, and with which relayers."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.api import Api
from tests.contract import bodies
from tests.documents import EXTENSIONS, read_document
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from tokens.scopes import Scope
from tokens.writes import issue, rotate
from transactions.models import Transaction

OTHER = PATH.replace("relayer-1", "relayer-2")
CANCEL_ALL = f"{PATH}/pending"


def client(user: User, *scopes: str, relayers: tuple[str, ...] = ()) -> Api:
    values = {"scopes": list(scopes), "allowed_relayers": list(relayers), "family": lanes.FAMILY}
    return Api(issue(name="tests", user=user, **values)[1])


def paths_of(row: Transaction) -> list[str]:
    return [PATH, f"{PATH}/{row.identifier}", f"{PATH}/by-nonce/0"]


def test_these_are_all_operations_of_the_extension() -> None:
    paths = read_document(EXTENSIONS)["paths"]
    found = {
        (method, path.removeprefix("/api/v1/relayers/{relayer_id}"), operation["security"][0]["bearer"][0])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("x-extension") == "transactions"
    }
    assert found == {
        ("post", "/transactions", "send"),
        ("post", "/transactions/dry-run", "send"),
        ("get", "/transactions", "read"),
        ("get", "/transactions/{transaction_id}", "read"),
        ("get", "/transactions/by-nonce/{nonce}", "read"),
        ("delete", "/transactions/{transaction_id}", "send"),
        ("put", "/transactions/{transaction_id}", "send"),
        ("post", "/transactions/{transaction_id}/speed-up", "send"),
        ("delete", "/transactions/pending", "send"),
    }


def test_a_limited_sender_reads_its_relayers_alone(user: User) -> None:
    row = lanes.transaction(lanes.lane(factories.relayer()), nonce=0, status="sent")
    for relayers, scopes, expected in [
        (("relayer-1",), ("send",), 200),
        (("relayer-2",), ("send",), 404),
        (("relayer-2",), ("send", "read"), 200),
    ]:
        limited = client(user, *scopes, relayers=relayers)
        answers = [limited.get(path) for path in paths_of(row)]
        assert [answer.status for answer in answers] == [expected] * 3
        if expected == 404:
            assert answers[1].body == bodies.failure("Relayer with ID relayer-1 not found")


def requests_of(row: Transaction) -> list[tuple[str, str, Any]]:
    """Return the requests that change a transaction of the first relayer."""
    one = f"{PATH}/{row.identifier}"
    return [
        ("DELETE", one, None),
        ("PUT", one, TRANSFER),
        ("POST", f"{one}/speed-up", {}),
        ("DELETE", CANCEL_ALL, None),
    ]


@pytest.mark.parametrize("scope", ["", *Scope.values])
def test_changing_needs_send_and_reading_needs_it_or_read(user: User, scope: str) -> None:
    sent = lanes.transaction(lanes.lane(factories.relayer()), nonce=0, status="sent")
    row, api = lanes.transaction(sent.lane), client(user, *filter(None, [scope]))
    reads = [("GET", path, None) for path in paths_of(sent)]
    writes = [("POST", PATH, TRANSFER), *reversed(requests_of(row))]
    for needed, requests, allowed in (("read", reads, {"read", "manage", "send"}), ("send", writes, {"send"})):
        for method, path, body in requests:
            Transaction.objects.filter(pk=row.pk).update(status="pending", finished_at=None, unsuccessful=None)
            answer = api(method, path, body)
            if scope in allowed:
                assert answer.status == 200
            else:
                assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
                challenge = f'Bearer error="insufficient_scope", scope="{needed}"'
                assert answer.headers["www-authenticate"] == challenge
            assert Api()(method, path, body).status == 401
    assert Transaction.objects.count() == 2 + (scope == "send")


@pytest.mark.parametrize("scopes", [["send"], ["send", "read", "manage"]])
def test_a_token_sends_and_changes_with_its_relayers_alone(user: User, sender: Api, scopes: list[str]) -> None:
    row = lanes.transaction(lanes.lane(factories.relayer()))
    factories.relayer(identifier="relayer-2", network="hoodi")
    key = {"Idempotency-Key": "order-1"}
    sender.post(PATH, TRANSFER, headers=dict(key))
    limited = client(user, *scopes, relayers=("relayer-2",))
    for method, path, body in [("POST", PATH, TRANSFER), *requests_of(row)]:
        for each in (path, path.replace("relayer-1", "nobody")):
            answer = limited(method, each, body, headers=dict(key))
            assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    row.refresh_from_db()
    assert (row.status, row.version, Transaction.objects.count()) == ("pending", 1, 2)
    assert limited.post(OTHER, TRANSFER).status == 200


def test_the_transaction_of_another_relayer_is_not_found(sender: Api) -> None:
    factories.relayer(identifier="relayer-2", network="hoodi")
    row = lanes.transaction(lanes.lane(factories.relayer()))
    for method, path, body in requests_of(row)[:3]:
        answer = sender(method, path.replace("relayer-1", "relayer-2"), body)
        expected = bodies.failure(f"Transaction with ID {row.identifier} not found")
        assert (answer.status, answer.body) == (404, expected)
    assert sender("DELETE", CANCEL_ALL.replace("relayer-1", "relayer-2")).body["data"]["total_processed"] == 0
    row.refresh_from_db()
    assert (row.status, row.version) == ("pending", 1)


OF_OTHERS = bodies.failure("Another token requested this transaction: changing it requires the scope manage")


def test_without_the_extension_nothing_is_there(sender: Api, settings: Any) -> None:
    settings.EXTENSIONS = []
    factories.relayer()
    for ending in ("", "/00000000-0000-4000-8000-000000000000", "/by-nonce/1"):
        answers = [sender.get(f"{PATH}{ending}"), sender.post(f"{PATH}{ending}", TRANSFER)]
        assert [(answer.status, answer.body) for answer in answers] == [(404, bodies.failure("Not Found"))] * 2


@pytest.mark.parametrize(
    ("requester", "requested_by"),
    [("another", "shop (rms_AAAAAAAAAAAA_…)"), ("", "admin"), ("", "Top-up of relayer poor")],
)
def test_what_others_requested_is_changed_with_manage_alone(
    sender: Api, user: User, requester: str, requested_by: str
) -> None:
    lane = lanes.lane(factories.relayer())
    row = lanes.transaction(lane, requester=requester, requested_by=requested_by)
    for method, path, body in requests_of(row)[:3]:
        answer = sender(method, path, body)
        assert (answer.status, answer.body) == (403, OF_OTHERS)
        assert answer.headers["error-code"] == "not_requester"
    own = lanes.transaction(lane)
    shown = sender("DELETE", CANCEL_ALL).body["data"]
    assert shown["queued_for_cancellation_transaction_ids"] == [own.identifier]
    row.refresh_from_db()
    assert (row.status, row.version, shown["total_processed"]) == ("pending", 1, 1)
    manager = client(user, "send", "manage")
    for method, path, body in reversed(requests_of(row)):
        Transaction.objects.filter(pk=row.pk).update(status="pending", finished_at=None, unsuccessful=None)
        assert manager(method, path, body).status == 200
    row.refresh_from_db()
    # Whoever replaces it.
    assert row.requester == requester


def test_a_rotated_token_changes_what_its_predecessors_requested(user: User) -> None:
    lane = lanes.lane(factories.relayer())
    first, text = issue(name="shop", user=user, scopes=["send"])
    sent = Api(text).post(PATH, TRANSFER).body["data"]["id"]
    second = rotate(first.pk)
    third = rotate(second.new.pk)
    later = Api(second.text).post(PATH, TRANSFER).body["data"]["id"]
    # Before the upgrade, the name of the token was all that was stored.
    former = [
        lanes.transaction(lane, requester="", requested_by=str(token)).identifier
        for token in (first, second.new, third.new)
    ]
    rows = [sent, later, *former]
    for each in (text, second.text, third.text):
        assert {Api(each)("PUT", f"{PATH}/{row}", TRANSFER).status for row in rows} == {200}
    # A name that quotes another key makes nothing one's own.
    for name in (f"{first} (rms_AAAAAAAAAAAA_…)", f"Top-up of relayer {first}"):
        quoted = lanes.transaction(lane, requester="", requested_by=name)
        assert Api(text)("DELETE", f"{PATH}/{quoted.identifier}").status == 403
    assert Api(third.text)("DELETE", CANCEL_ALL).body["data"]["total_processed"] == len(rows)
