"""Which token can send and read, and with which relayers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from django.contrib.auth.models import User

from tests.api import Api
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.rest.requests import PATH, TRANSFER
from tokens.scopes import Scope
from tokens.writes import issue, rotate
from transactions.models import Lane, Transaction

DOCUMENT = Path(__file__).parents[3] / "openapi-extensions.yaml"
OTHER = PATH.replace("relayer-1", "relayer-2")
CANCEL_ALL = f"{PATH}/pending"
MISSING = PATH.replace("relayer-1", "nobody")


def client(user: User, *scopes: str, relayers: tuple[str, ...] = ()) -> Api:
    values = {"scopes": list(scopes), "allowed_relayers": list(relayers), "family": lanes.FAMILY}
    return Api(issue(name="tests", user=user, **values)[1])


def paths_of(row: Transaction) -> list[str]:
    return [PATH, f"{PATH}/{row.identifier}", f"{PATH}/by-nonce/0"]


def test_these_are_all_operations_of_the_extension() -> None:
    paths = yaml.safe_load(DOCUMENT.read_text())["paths"]
    found = {
        (method, path.removeprefix("/api/v1/relayers/{relayer_id}"), operation["security"][0]["bearer"][0])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("x-extension") == "transactions"
    }
    assert found == {
        ("post", "/transactions", "send"),
        ("get", "/transactions", "read"),
        ("get", "/transactions/{transaction_id}", "read"),
        ("get", "/transactions/by-nonce/{nonce}", "read"),
        ("delete", "/transactions/{transaction_id}", "send"),
        ("put", "/transactions/{transaction_id}", "send"),
        ("post", "/transactions/{transaction_id}/speed-up", "send"),
        ("delete", "/transactions/pending", "send"),
    }


@pytest.mark.parametrize("scope", ["", *Scope.values])
def test_sending_needs_the_scope_send(user: User, scope: str) -> None:
    factories.relayer()
    answer = client(user, *filter(None, [scope])).post(PATH, TRANSFER)
    if scope == "send":
        assert answer.status == 200
        return
    assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="send"'
    assert (Transaction.objects.count(), Lane.objects.count()) == (0, 0)


@pytest.mark.parametrize("scope", ["", *Scope.values])
def test_reading_needs_read_or_send(user: User, scope: str) -> None:
    row = lanes.transaction(lanes.lane(factories.relayer()), nonce=0, status="sent")
    answers = [client(user, *filter(None, [scope])).get(path) for path in paths_of(row)]
    if scope in {"read", "manage", "send"}:
        assert [answer.status for answer in answers] == [200, 200, 200]
        return
    assert [(answer.status, answer.body) for answer in answers] == [(403, bodies.failure("Forbidden"))] * 3
    assert answers[0].headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="read"'


def test_without_a_token_nothing_is_disclosed() -> None:
    assert [Api().get(PATH).status, Api().post(PATH, TRANSFER).status] == [401, 401]


@pytest.mark.parametrize("scopes", [["send"], ["send", "read"], ["send", "manage"]])
def test_a_token_sends_with_its_relayers_alone(user: User, scopes: list[str]) -> None:
    factories.relayer()
    factories.relayer(identifier="relayer-2", network="hoodi")
    limited = client(user, *scopes, relayers=("relayer-2",))
    for path in (PATH, MISSING):
        answer = limited.post(path, TRANSFER)
        assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    assert (Transaction.objects.count(), Lane.objects.count()) == (0, 0)
    assert limited.post(OTHER, TRANSFER).status == 200


def test_a_token_cannot_replay_the_transaction_of_another_relayer(user: User, sender: Api) -> None:
    factories.relayer()
    headers = {"Idempotency-Key": "order-1"}
    sender.post(PATH, TRANSFER, headers=dict(headers))
    answer = client(user, "send", relayers=("relayer-2",)).post(PATH, TRANSFER, headers=dict(headers))
    assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))


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
def test_changing_needs_the_scope_send(user: User, scope: str) -> None:
    row = lanes.transaction(lanes.lane(factories.relayer()))
    changing = client(user, *filter(None, [scope]))
    for method, path, body in reversed(requests_of(row)):
        Transaction.objects.update(status="pending", finished_at=None, unsuccessful=None)
        answer = changing(method, path, body)
        if scope == "send":
            assert answer.status == 200
        else:
            assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
            assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="send"'


def test_a_token_changes_transactions_of_its_relayers_alone(user: User) -> None:
    factories.relayer(identifier="relayer-2", network="hoodi")
    row = lanes.transaction(lanes.lane(factories.relayer()))
    limited = client(user, "send", "manage", "read", relayers=("relayer-2",))
    for method, path, body in requests_of(row):
        for each in (path, path.replace("relayer-1", "nobody")):
            answer = limited(method, each, body)
            assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    row.refresh_from_db()
    assert (row.status, row.version) == ("pending", 1)


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


@pytest.mark.parametrize("requester", ["another", ""])
@pytest.mark.parametrize("requested_by", ["shop (rms_AAAAAAAAAAAA_…)", "admin", "Top-up of relayer poor"])
def test_what_others_requested_is_not_changed(sender: Api, requester: str, requested_by: str) -> None:
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


def test_with_manage_a_token_changes_what_others_requested(user: User) -> None:
    row = lanes.transaction(lanes.lane(factories.relayer()), requester="another")
    manager = client(user, "send", "manage")
    for method, path, body in reversed(requests_of(row)):
        Transaction.objects.update(status="pending", finished_at=None, unsuccessful=None)
        assert manager(method, path, body).status == 200
    row.refresh_from_db()
    # Whoever replaces it.
    assert row.requester == "another"


def test_a_rotated_token_changes_what_its_predecessors_requested(user: User) -> None:
    factories.relayer()
    first, text = issue(name="shop", user=user, scopes=["send"])
    sent = Api(text).post(PATH, TRANSFER).body["data"]["id"]
    second = rotate(first.pk)
    third = rotate(second.new.pk)
    later = Api(second.text).post(PATH, TRANSFER).body["data"]["id"]
    clients = [Api(each) for each in (text, second.text, third.text)]
    for each in clients:
        assert [each("PUT", f"{PATH}/{row}", TRANSFER).status for row in (sent, later)] == [200, 200]


def test_what_a_token_requested_before_the_upgrade_stays_its_own(user: User) -> None:
    lane = lanes.lane(factories.relayer())
    first, text = issue(name="shop", user=user, scopes=["send"])
    second = rotate(first.pk)
    third = rotate(second.new.pk)
    for token in (first, second.new, third.new):
        row = lanes.transaction(lane, requester="", requested_by=str(token))
        for each in (text, second.text, third.text):
            assert Api(each)("PUT", f"{PATH}/{row.identifier}", TRANSFER).status == 200
    assert Api(third.text)("DELETE", CANCEL_ALL).body["data"]["total_processed"] == 3


def test_a_name_that_quotes_another_key_makes_nothing_ones_own(user: User) -> None:
    token, text = issue(name="shop", user=user, scopes=["send"])
    quoted = lanes.transaction(
        lanes.lane(factories.relayer()), requester="", requested_by=f"{token} (rms_AAAAAAAAAAAA_…)"
    )
    top_up = lanes.transaction(quoted.lane, requester="", requested_by=f"Top-up of relayer {token}")
    assert [Api(text)("DELETE", f"{PATH}/{row.identifier}").status for row in (quoted, top_up)] == [403, 403]


@pytest.mark.parametrize("ending", ["", "/00000000-0000-4000-8000-000000000000", "/by-nonce/1"])
def test_without_the_extension_nothing_is_there(sender: Api, settings: Any, ending: str) -> None:
    settings.EXTENSIONS = []
    factories.relayer()
    answers = [sender.get(f"{PATH}{ending}"), sender.post(f"{PATH}{ending}", TRANSFER)]
    assert [(answer.status, answer.body) for answer in answers] == [(404, bodies.failure("Not Found"))] * 2


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_other_methods_are_not_allowed(sender: Api, method: str) -> None:
    factories.relayer()
    answer = sender(method, PATH, {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")
