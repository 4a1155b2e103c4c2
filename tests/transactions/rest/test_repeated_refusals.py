"""Refusals of spending rules that repeat: one audit entry and one event a minute, with their count."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import F

from notifications.models import Delivery
from relayer_service.models import AuditEntry
from relayers.models import Relayer
from tests.api import Api
from tests.concurrency import in_threads
from tests.relayers import factories
from tests.transactions.limits import limit_relayer, policy
from tests.transactions.rest.requests import PATH, RECEIVER, TRANSFER
from tokens.models import AccessToken, verified_tokens
from tokens.writes import issue

OTHER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
CALLERS = 20


@pytest.fixture
def relayer() -> Relayer:
    row = factories.relayer(notification=factories.notification())
    limit_relayer(row, max_value="1", max_value_per_day="1")
    return row


def refuse(client: Api, **changes: Any) -> None:
    while (status := client.post(PATH, {**TRANSFER, "value": 2, **changes}).status) == 503:
        """SQLite has one writer at a time."""
    assert status == 403


def entries() -> list[tuple[str, dict[str, str]]]:
    found = AuditEntry.objects.filter(action="acted", reason__startswith="Refused").order_by("pk")
    return [(entry.reason, entry.changes) for entry in found]


def events() -> list[dict[str, Any]]:
    return [json.loads(bytes(each.body))["data"] for each in Delivery.objects.order_by("pk")]


def counts() -> list[tuple[str, str, int]]:
    return [(event["rule"], event["rule_of"], event["count"]) for event in events()]


def let_seconds_pass(seconds: int) -> None:
    AuditEntry.objects.update(at=F("at") - timedelta(seconds=seconds))


def reason(rule: str = "max_value", holder: str = "relayer", to: str = RECEIVER) -> str:
    return f"Refused a transaction to {to} by the spending rule {rule} of the {holder}."


def test_refusals_within_a_minute_are_one_entry_with_their_count_and_one_event(sender: Api, relayer: Relayer) -> None:
    for to in (RECEIVER, OTHER, RECEIVER):
        refuse(sender, to=to)
    let_seconds_pass(30)
    refuse(sender)
    assert entries() == [(reason(), {"count": "4"})]
    assert counts() == [("max_value", "relayer", 1)]


def test_the_next_event_has_the_count_of_those_without_one(sender: Api, relayer: Relayer) -> None:
    for _ in range(3):
        refuse(sender)
    let_seconds_pass(60)
    refuse(sender, to=OTHER)
    assert entries() == [(reason(), {"count": "3"}), (reason(to=OTHER), {})]
    # Two that no event has reported, and this one.
    assert counts() == [("max_value", "relayer", 1), ("max_value", "relayer", 3)]
    let_seconds_pass(60)
    for _ in range(2):
        refuse(sender)
    # Of no more than an hour ago.
    let_seconds_pass(3600)
    refuse(sender)
    assert counts()[2:] == [("max_value", "relayer", 1)] * 2


def test_each_token_and_relayer_is_counted_by_itself(sender: Api, user: User, relayer: Relayer) -> None:
    """Tokens may have the same name."""
    other = Api(issue(name="payments", user=user, scopes=["send"])[1])
    for client in (sender, other, sender):
        refuse(client)
    assert entries() == [(reason(), {"count": "2"}), (reason(), {})]
    second = factories.relayer(identifier="relayer-2", notification=relayer.notification, signer=relayer.signer)
    limit_relayer(second, max_value="1")
    assert sender.post(PATH.replace("relayer-1", "relayer-2"), {**TRANSFER, "value": 2}).status == 403
    found = [(event["relayer_id"], event["requested_by"]) for event in events()]
    assert found == [("relayer-1", "payments")] * 2 + [("relayer-2", "payments")]


def test_each_rule_is_counted_by_itself(sender: Api, relayer: Relayer) -> None:
    AccessToken.objects.update(spending=policy(max_value="0"))
    verified_tokens.clear()
    assert sender.post(PATH, {**TRANSFER, "value": 0}).status == 200
    refuse(sender)
    refuse(sender, value=1)
    limit_relayer(relayer, max_value_per_day="1")
    refuse(sender, value=2)
    AccessToken.objects.update(spending=policy(max_value="9"))
    refuse(sender, value=2)
    assert counts() == [
        ("max_value", "relayer", 1),
        ("max_value", "token", 1),
        ("max_value_per_day", "relayer", 1),
    ]
    assert entries()[1] == (reason(holder="token"), {"count": "2"})


@pytest.mark.django_db(transaction=True)
def test_concurrent_refusals_are_all_counted(sender: Api, relayer: Relayer) -> None:
    in_threads(*[partial(refuse, sender)] * CALLERS)
    assert entries() == [(reason(), {"count": str(CALLERS)})]
    assert counts() == [("max_value", "relayer", 1)]
