"""Spending rules when a transaction is accepted: what is refused, reserved and reported."""

from __future__ import annotations

import json
import re
from functools import partial
from threading import Thread
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from notifications.models import Delivery
from relayer_service.api.idempotency import body_digest
from relayer_service.database.clock import database_now
from relayer_service.models import AuditEntry
from spending.models import SpendingLimit, SpendingPolicy
from tests.api import Answer, Api
from tests.concurrency import in_threads, wait_until, waits_for_a_lock
from tests.contract import bodies
from tests.relayers import factories
from tests.transactions import factories as lanes
from tests.transactions.limits import let_hours_pass, limit_relayer, policy, used
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tokens.models import AccessToken, verified_tokens
from tokens.writes import AccessTokenWrite, issue, rotate
from transactions.limits.status_changes import settle
from transactions.limits.windows import hour_of
from transactions.models import Charge, Transaction

OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
TOKEN = "0x5FbDB2315678afecb367f032d93F642f64180aa3"  # a contract
CALLERS = 50
TABLES = r"(?:INTO|UPDATE|FROM) \"?(spending_spendinglimit|transactions_charge)"


def limited(user: User, **rules: Any) -> tuple[Api, SpendingPolicy]:
    """Return a client whose token has these rules."""
    made, text = issue(name="limited", user=user, scopes=["send"])
    chosen = policy(**rules)
    AccessToken.objects.filter(pk=made.pk).update(spending=chosen)
    verified_tokens.clear()
    return Api(text), chosen


def pay(client: Api, value: int) -> int:
    return client.post(PATH, {**TRANSFER, "value": value}).status


def persist(client: Api, value: int) -> int:
    """Pay, and again if the database was busy: SQLite has one writer at a time, and limits how long others wait."""
    while (status := pay(client, value)) == 503:
        pass
    return status


def transfer(amount: int) -> dict[str, Any]:
    """Return a transfer of an ERC-20 token."""
    data = f"0xa9059cbb{int(RECEIVER, 16):064x}{amount:064x}"
    return {"to": TOKEN, "value": 0, "data": data}


def test_a_rule_refuses_with_its_name_an_audit_entry_and_an_event(sender: Api) -> None:
    relayer = factories.relayer(notification=factories.notification())
    limit_relayer(relayer, receivers=[{"address": OTHER}])
    answer = sender.post(PATH, {**TRANSFER, "data": "0xa9059cbb0102"})
    text = f"Refused by the spending rule receivers of the relayer: Receiver {RECEIVER}; allowed: {OTHER}."
    assert (answer.status, answer.body) == (403, bodies.failure(text))
    assert answer.headers["error-code"] == "spending_refused"
    assert "www-authenticate" not in answer.headers
    assert not Transaction.objects.exists()

    entry = AuditEntry.objects.for_row(relayer).get(action="acted")
    what = f"Refused a transaction to {RECEIVER}, function 0xa9059cbb by the spending rule receivers of the relayer."
    assert (entry.reason, entry.actor_kind, entry.actor) == (what, "token", "payments")
    delivery = Delivery.objects.get()
    assert delivery.event == "transaction.refused"
    assert json.loads(bytes(delivery.body))["data"] == {
        "relayer_id": "relayer-1",
        "name": "Relayer 1",
        "network": "sepolia",
        "network_type": "evm",
        "actor": "token payments",
        "reason": what,
        "rule": "receivers",
        "rule_of": "relayer",
        "requested_by": "payments",
        "to": RECEIVER,
        "selector": "0xa9059cbb",
        "count": 1,
    }


def test_a_limit_is_reached_exactly_and_not_exceeded(sender: Api, settings: Any) -> None:
    tokens = [{"contract": TOKEN, "max_amount_per_day": "100"}]
    chosen = limit_relayer(factories.relayer(), max_value_per_day="10", tokens=tokens)
    key = {"Idempotency-Key": "payment-1"}
    for _ in range(3):
        assert sender.post(PATH, {**TRANSFER, "value": 4}, headers=dict(key)).status == 200
    assert [pay(sender, value) for value in (5, 2, 1, 1)] == [200, 403, 200, 403]
    assert used(chosen) == 10
    answer = sender.post(PATH, {**TRANSFER, "value": 3})
    text = "Refused by the spending rule max_value_per_day of the relayer: "
    assert answer.body == bodies.failure(f"{text}Value 3 wei; 0 of 10 wei are left in 24 hours.")
    assert pay(sender, 0) == 200
    assert [sender.post(PATH, transfer(amount)).status for amount in (60, 41, 30)] == [200, 403, 200]
    # What a full queue refuses reserves nothing.
    settings.TRANSACTION_QUEUE_LIMIT = Transaction.objects.count()
    assert sender.post(PATH, transfer(10)).status == 429
    assert (used(chosen, f"token:{TOKEN}"), used(chosen)) == (90, 10)


def test_the_rules_of_the_token_hold_as_well(sender: Api, user: User) -> None:
    client, chosen = limited(user, max_value_per_day=str(2**256 - 1), max_value="6")
    own = limit_relayer(factories.relayer(), max_value_per_day="10")
    assert [pay(client, value) for value in (7, 6, 5)] == [403, 200, 403]
    assert (used(chosen), used(own)) == (6, 6)
    # Another token has only the relayer's rules.
    assert [pay(sender, 5), pay(sender, 4)] == [403, 200]
    assert (used(chosen), used(own)) == (6, 10)
    assert Transaction.objects.order_by("sequence").values_list("token_spending", flat=True)[0] == chosen.pk


def test_a_limit_of_gas_holds_for_prices_of_others_transactions(sender: Api, user: User) -> None:
    """Their gas counts on the rules of the token that requested them."""
    factories.relayer()
    client, chosen = limited(user, max_gas_cost_per_day=str(10**15))
    AccessToken.objects.update(scopes=["send", "manage"])
    own, other = (each.post(PATH, TRANSFER).body["data"]["id"] for each in (client, sender))
    price = {"gas_price": 10**9}
    answer = client.post(f"{PATH}/{other}/speed-up", price)
    text = "Refused by the spending rule max_gas_cost_per_day of the token: "
    assert (answer.status, answer.body["message"].startswith(text)) == (403, True)
    assert AuditEntry.objects.filter(
        reason__contains="by the spending rule max_gas_cost_per_day of the token."
    ).exists()
    assert client.post(f"{PATH}/{own}/speed-up", price).status == 200
    assert sender.post(f"{PATH}/{own}/speed-up", {"gas_price": 2 * 10**9}).status == 200
    # Replaced, it counts on the rules of the token that replaces it.
    assert client("PUT", f"{PATH}/{other}", {**TRANSFER, **price}).status == 200
    assert client.post(f"{PATH}/{other}/speed-up", {"gas_price": 2 * 10**9}).status == 200
    chosen.rules = {"max_value": "1000"}
    chosen.save()
    third = sender.post(PATH, TRANSFER).body["data"]["id"]
    assert client.post(f"{PATH}/{third}/speed-up", price).status == 200


def test_the_first_rules_of_a_token_bind_at_once(sender: Api) -> None:
    """Another process has set them, and this one has the token in its cache."""
    factories.relayer()
    first = sender.post(PATH, TRANSFER).body["data"]["id"]
    rules = policy(max_value="1", max_gas_cost_per_day="1")
    AccessToken.objects.update(spending=rules)

    body = {**TRANSFER, "value": 2}
    assert sender.post(PATH, body).status == 403
    assert sender("PUT", f"{PATH}/{first}", body).status == 403
    assert sender.post(f"{PATH}/{first}/speed-up", {"speed": "fastest"}).status == 403
    assert sender.post(f"{PATH}/dry-run", body).body["data"]["allowed"] is False
    assert pay(sender, 1) == 200
    assert Transaction.objects.latest("sequence").token_spending == rules


@pytest.mark.parametrize("chosen", [0, 1])
def test_first_rules_after_a_rotation_bind_the_other_token_at_once(
    user: User, monkeypatch: pytest.MonkeyPatch, chosen: int
) -> None:
    """Another process has set them, and this one has both tokens in its cache."""
    factories.relayer()
    old, text = issue(name="payments", user=user, scopes=["send"])
    rotation = rotate(old.pk)
    clients = [Api(text), Api(rotation.text)]
    accepted = [client.post(PATH, TRANSFER).body["data"]["id"] for client in clients]
    monkeypatch.setattr("tokens.models.forget", lambda keys: None)
    with transaction.atomic():
        write = AccessTokenWrite(AccessToken.objects.get(pk=(rotation.old, rotation.new)[chosen].pk))
        write.change({"spending_rules": {"max_value_per_day": "5"}})
        write.save()
    assert [pay(client, 6) for client in clients] == [403, 403]
    body = {**TRANSFER, "value": 6}
    assert [client("PUT", f"{PATH}/{row}", body).status for client, row in zip(clients, accepted, strict=True)] == [
        403,
        403,
    ]
    # They share what was spent, too.
    assert [pay(clients[0], 3), pay(clients[1], 3), pay(clients[1], 2)] == [200, 403, 200]


def test_rules_of_a_token_that_were_deleted_refuse(user: User) -> None:
    factories.relayer()
    client, chosen = limited(user, max_value="6", max_value_per_day="1000")
    body = {**TRANSFER, "valid_until": "2099-01-01T00:00:00Z"}
    accepted = client.post(PATH, body).body["data"]
    path = f"{PATH}/{accepted['id']}"
    replaced = client("PUT", path, {**body, "value": 2}).body["data"]
    # However long it is in flight, it counts: a limit does not change when a request expires.
    assert accepted["valid_until"] == replaced["valid_until"] == "2099-01-01T00:00:00.000000Z"
    AccessToken.objects.update(spending=None)
    chosen.delete()
    # The token is cached, with its policy.
    assert pay(client, 1) == 403
    assert client("PUT", path, {**TRANSFER, "value": 3}).status == 403
    # A token that was deleted meanwhile keeps its rules.
    deleted, own = limited(user, max_value="1")
    assert pay(deleted, 1) == 200
    rows = AccessToken.objects.filter(spending=own)
    rows._raw_delete(rows.db)
    assert pay(deleted, 2) == 403


def test_what_counted_leaves_the_limit_after_a_day(sender: Api) -> None:
    chosen = limit_relayer(factories.relayer(), max_value_per_day="10")
    assert pay(sender, 10) == 200
    row = Transaction.objects.get()
    row.nonce = 0
    row.mined_attempt = lanes.attempt(row)
    row.status, row.mined_at, row.finished_at = "confirmed", database_now(), database_now()
    row.save()
    with transaction.atomic():
        settle([row], row.mined_at)
    let_hours_pass(24)
    assert (pay(sender, 1), used(chosen)) == (403, 10)
    let_hours_pass(1)
    assert (pay(sender, 9), used(chosen)) == (200, 9)
    # The old hour is dropped on write.
    assert len(SpendingLimit.objects.get().hours) == 1


GAS_REFUSED = (
    "Refused by the spending rule max_gas_cost_per_day of the {}: "
    "Gas cost of at least {} wei; the maximum in 24 hours is {} wei."
)
PRICED = {"gas_limit": 50_000, "gas_price": 3}
FEES = {"gas_limit": 50_000, "max_fee_per_gas": 3, "max_priority_fee_per_gas": 1}


@pytest.mark.parametrize(
    ("price", "maximum", "cost"),
    [({}, 0, 1), ({"speed": "safeLow"}, 0, 1), (PRICED, 149_999, 150_000), (FEES, 149_999, 150_000)],
)
def test_what_a_gas_limit_can_never_allow_is_refused(
    sender: Api, user: User, price: dict[str, Any], maximum: int, cost: int
) -> None:
    relayer = factories.relayer()
    client, _ = limited(user, max_gas_cost_per_day=str(maximum))
    row = lanes.transaction(lanes.lane(relayer))
    body = {**TRANSFER, "value": 2, **price}
    of_token = client.post(PATH, body)
    limit_relayer(relayer, max_gas_cost_per_day=str(maximum))
    for holder, answer in (
        ("token", of_token),
        ("relayer", sender.post(PATH, body)),
        ("relayer", sender("PUT", f"{PATH}/{row.identifier}", body)),
    ):
        assert (answer.status, answer.body) == (403, bodies.failure(GAS_REFUSED.format(holder, cost, maximum)))
        assert answer.headers["error-code"] == "spending_refused"
    assert Transaction.objects.get().payload_version == 1
    # What it may allow later waits.
    limit_relayer(relayer, max_gas_cost_per_day=str(cost))
    assert sender.post(PATH, body).status == 200


def statements(client: Api) -> int:
    """Return how many statements of a request read or write limits and charges."""
    with CaptureQueriesContext(connection) as queries:
        assert pay(client, 1) == 200
        return sum(bool(re.search(TABLES, query["sql"])) for query in queries.captured_queries)


def test_only_limits_take_statements_when_a_request_is_accepted(sender: Api, user: User) -> None:
    """Rules and limits are read with the relayer on PostgreSQL, and written with the row: two statements in all."""
    without, with_limits = {"postgresql": (1, 2), "sqlite": (0, 3)}[connection.vendor]
    relayer = factories.relayer()
    limit_relayer(relayer, max_value="10")
    pay(sender, 1)
    assert statements(sender) == without
    limit_relayer(relayer, max_value="10", max_value_per_day="100", max_gas_cost_per_day="100")
    pay(sender, 1)
    assert statements(sender) == with_limits
    # No more for two holders, whose limits are locked together.
    client, _ = limited(user, max_value_per_day="100")
    pay(client, 1)
    assert statements(client) == with_limits


@pytest.mark.django_db(transaction=True)
def test_callers_who_race_for_a_limit_never_exceed_it(user: User) -> None:
    relayer = factories.relayer()
    lanes.lane(relayer)
    limit_relayer(relayer, max_value_per_day="100")
    client, chosen = limited(user, max_value_per_day="70")
    statuses = in_threads(*[partial(persist, client, value) for value in range(1, CALLERS + 1)])
    accepted = sum(int(text) for text in Transaction.objects.values_list("value_text", flat=True))
    assert set(statuses) == {200, 403}
    assert used(chosen) == accepted <= 70
    assert sum(int(text) for text in Charge.objects.values_list("amount_text", flat=True)) == 2 * accepted
    assert Transaction.objects.count() == statuses.count(200)


@pytest.mark.django_db(transaction=True)
def test_a_retry_that_waits_for_the_request_that_fills_the_limit_returns_it(sender: Api) -> None:
    relayer = factories.relayer()
    lane = lanes.lane(relayer)
    limited = limit_relayer(relayer, max_value_per_day="1")
    limit = SpendingLimit.objects.create(policy=limited, name="value", hours={})
    key = {"Idempotency-Key": "order-1"}
    answers: list[Answer] = []

    def send() -> None:
        try:
            answers.append(sender.post(PATH, TRANSFER, headers=key))
        finally:
            connections.close_all()

    thread = Thread(target=send)
    with transaction.atomic():
        SpendingLimit.objects.select_for_update().get()
        digest = body_digest(TRANSFER)
        row = lanes.transaction(lane, value_text="1", idempotency_key="order-1", request_digest=digest)
        limit.hours = {str(hour_of(database_now())): "1"}
        limit.save()
        thread.start()
        wait_until(waits_for_a_lock)
    thread.join()
    assert [(answer.status, answer.body["data"]["id"]) for answer in answers] == [(200, row.identifier)]


def test_what_is_refused_is_reported_without_what_it_does_not_have(sender: Api) -> None:
    relayer = factories.relayer()
    limit_relayer(relayer, receivers=[])
    assert sender.post(PATH, {"value": 0, "data": "0x6001"}).status == 403
    entry = AuditEntry.objects.for_row(relayer).get(action="acted")
    rule = "the spending rule receivers of the relayer"
    assert entry.reason == f"Refused a transaction that creates a contract by {rule}."
    answer = sender.post(PATH, {"to": factories.ADDRESS, "value": 0, "data": "0xa9059cbb"})
    assert (answer.status, "rule own_account of the relayer" in str(answer.body)) == (403, True)
