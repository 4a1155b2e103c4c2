"""External IDs and metadata: kept to the byte, by replacements too, and part of what a key stands for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from notifications.models import Delivery
from relayer_service.api.idempotency import body_digest
from tests.api import Api
from tests.contract import bodies
from tests.notifications.factories import create_notification
from tests.relayers import factories
from tests.transactions.rest.requests import PATH, TRANSFER
from tests.transactions.rest.test_sending import ACCEPTED, of_row
from tokens.writes import issue
from transactions.models import Transaction

pytestmark = pytest.mark.both_engines

# Of the longest sizes, and with what pages, spreadsheets and queries would interpret.
LABELS: dict[str, Any] = {
    "external_id": "  =Zoë/№ 1 <b>&'\"\\ \U0001f600",
    "metadata": {
        "z": "",
        "0": '\\u0000 {"$gt": 1}',
        "a.b-C_9": " É≠É ",
        **{f"k{number}": "é" * 75 for number in range(13)},
    },
}
SORTED = {**LABELS, "metadata": dict(sorted(LABELS["metadata"].items()))}
# As the last release computes it of TRANSFER, with the secret of the tests.
DIGEST = "970f72461aa8ba3a1973515237a56585f4c53304e7decf95d91a001020742461"


def test_labels_are_kept_to_the_byte(sender: Api) -> None:
    factories.relayer()
    body = TRANSFER | LABELS
    assert sender.post(f"{PATH}/dry-run", body).body["data"]["checks"][0]["allowed"]
    answer = sender.post(PATH, body)
    row = Transaction.objects.get()
    assert (answer.status, answer.body) == (200, bodies.success(ACCEPTED | SORTED | of_row(row)))
    assert [*answer.body["data"]["metadata"]] == sorted(LABELS["metadata"])
    assert (row.external_id, row.metadata) == (LABELS["external_id"], LABELS["metadata"])
    assert sender.get(f"{PATH}/{row.identifier}").body == answer.body
    assert sender.get(PATH).body["data"] == [answer.body["data"]]
    # Without any, columns stay empty, and indexes small.
    assert sender.post(PATH, {**TRANSFER, "external_id": None, "metadata": {}}).status == 200
    assert Transaction.objects.values_list("external_id", "metadata").last() == (None, None)


def test_a_replacement_keeps_its_labels_and_events_have_them(sender: Api) -> None:
    factories.relayer(notification=create_notification())
    path = f"{PATH}/{sender.post(PATH, TRANSFER | LABELS).body['data']['id']}"
    for labels in ({}, LABELS, {"external_id": None}):
        answer = sender("PUT", path, {**TRANSFER, "value": 2, **labels})
        assert (answer.status, {name: answer.body["data"][name] for name in LABELS}) == (200, SORTED)
    refused = sender("PUT", path, {**TRANSFER, "external_id": "other", "metadata": {}})
    faults = [f"{name}: this field cannot be changed" for name in LABELS]
    assert (refused.status, bodies.uncoded(refused.body)) == (400, bodies.bad_request(*faults))
    assert sender("DELETE", path).status == 200
    event = json.loads(bytes(Delivery.objects.get(event="transaction.canceled").body))
    assert {name: event["data"][name] for name in LABELS} == SORTED


def test_labels_are_part_of_what_a_key_stands_for(sender: Api, user: User) -> None:
    factories.relayer()
    other = Api(issue(name="rotated", user=user, scopes=["send"])[1])
    headers = {"Idempotency-Key": "order-4711"}
    body = TRANSFER | LABELS
    first = sender.post(PATH, body, headers=headers)
    again = other.post(PATH, body | {"metadata": SORTED["metadata"]}, headers=headers)
    assert (again.status, again.body["data"]["id"]) == (200, first.body["data"]["id"])
    for changed in (TRANSFER, body | {"external_id": "other"}, body | {"metadata": {}}):
        answer = other.post(PATH, changed, headers=headers)
        assert (answer.status, answer.headers["error-code"]) == (409, "idempotency_key_reused")
    assert Transaction.objects.count() == 1


def test_without_labels_a_digest_is_that_of_earlier_releases(sender: Api) -> None:
    factories.relayer()
    sender.post(PATH, TRANSFER, headers={"Idempotency-Key": "order-4711"})
    assert Transaction.objects.get().request_digest == body_digest(TRANSFER) == DIGEST


def test_metadata_counts_on_what_a_token_can_store(sender: Api, settings: Any) -> None:
    factories.relayer()
    settings.TRANSACTION_BYTES_PER_DAY = 3 * 1024
    full = {"metadata": {f"key-{number}": "x" * 500 for number in range(4)}}
    statuses = [sender.post(PATH, TRANSFER | full).status for _ in range(2)]
    assert statuses == [200, 429]
