"""Relayers take turns: rows of one that refuses, or that is missing, delay no other."""

from __future__ import annotations

import re
import signal
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from relayer_client import Client
from relayer_client.outbox import handing_over
from relayer_client.outbox.management.commands import send_outbox
from relayer_client.outbox.models import OutboxTransaction
from relayer_client.outbox.sending import run_once
from tests.client.outbox.fake_service import NOT_FOUND, FakeService, relayer_of
from tests.client.outbox.rows import add, add_many, make_due, statuses
from tests.client.scripted_server import DROP, Answer, Request, refused

SPENDING = refused(403, "spending_refused")
PAUSED = refused(403, "relayer_paused")


def test_relayers_take_turns(outbox: None, fake: FakeService, client: Client) -> None:
    add_many(40, relayer="busy")
    for key in ("a", "b"):
        add(key, relayer="other")
    run_once(client)
    assert fake.senders == ["busy", "other", "busy", "other", *["busy"] * 21]


@pytest.mark.parametrize("answer", [SPENDING, PAUSED, refused(500, "internal_error"), DROP], ids=str)
def test_refused_rows_wait_longer_each_time(
    outbox: None, fake: FakeService, client: Client, monkeypatch: Any, answer: Answer
) -> None:
    found: list[int] = []

    def retry_pause(attempts: int, _: Any) -> timedelta:
        found.append(attempts)
        return timedelta(hours=1)

    monkeypatch.setattr(handing_over, "retry_pause", retry_pause)
    add_many(3)
    fake.refusal = lambda request: answer if request.method == "POST" else None
    for _ in range(3):
        run_once(client)
        make_due()
    assert sorted({*found}) == [0, 1, 2]
    assert len({*OutboxTransaction.objects.values_list("attempts", flat=True)}) == 1


def test_every_waiting_row_has_a_reason(outbox: None, fake: FakeService, client: Client) -> None:
    def reasons() -> list[str]:
        return [*OutboxTransaction.objects.order_by("pk").values_list("status_reason", flat=True)]

    add_many(2)
    assert reasons() == ["It waits for a sender: manage.py send_outbox hands it over."] * 2
    fake.refusal = lambda request: DROP
    run_once(client)
    (reason,) = {*reasons()}
    assert re.fullmatch(r"Request \w+: The connection was closed before the response was complete\.", reason)
    for code in ("relayer_paused", "spending_refused"):
        answer = refused(403, code)
        fake.refusal = lambda request: answer if request.method == "POST" else None  # noqa: B023  # called at once
        make_due()
        run_once(client)
        assert reasons() == [f"Refused (403, {code})"] * 2


@pytest.mark.parametrize("answer", [refused(500, "internal_error"), refused(503, "unavailable"), DROP], ids=str)
def test_a_relayer_that_cannot_be_read_delays_no_other(
    outbox: None, fake: FakeService, client: Client, answer: Answer
) -> None:
    fake.generations = {"sender": 1}
    add("known")
    run_once(client)
    fake.loss = lambda request: DROP if request.method == "POST" else None
    add("doubt", relayer="other")
    run_once(client)
    fake.loss = lambda request: None
    fake.refusal = lambda request: answer if relayer_of(request) == "sender" else None
    for status in ("sent", "mined"):
        # Also if new rows of the relayer are added all the time.
        make_due()
        add(f"unread {status}")
        add(f"new {status}", relayer="other")
        run_once(client)
        fake.finish(status)
    # Whether the service has forgotten the key of the doubtful row is unknown.
    found = {"known": "pending", "doubt": "queued", "unread sent": "queued", "new sent": "sent"}
    assert statuses() == found | {"unread mined": "queued", "new mined": "pending"}
    assert len(fake.accepted) == 4
    assert not OutboxTransaction.objects.exclude(key="doubt").exclude(unanswered_since=None).exists()


@pytest.mark.parametrize("answer", [refused(500, "internal_error"), DROP], ids=str)
def test_a_row_that_always_fails_is_overtaken(outbox: None, fake: FakeService, client: Client, answer: Answer) -> None:
    add_many(3)
    fake.refusal = lambda request: answer if b'"value":"0"' in request.body else None
    for _ in range(2):
        run_once(client)
        make_due()
    assert statuses() == {"payout-0": "queued", "payout-1": "pending", "payout-2": "pending"}


def test_a_command_hands_over_what_it_can_and_reports_the_rest(
    outbox: None, fake: FakeService, settings: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(send_outbox, "close_old_connections", lambda: None)
    monkeypatch.setattr(handing_over, "BATCH_ROWS", 1)
    settings.RELAYER_CLIENT = {"URL": fake.url, "TOKEN": "a-token"}
    add("first", relayer="lost")
    add("second")
    fake.refusal = lambda request: DROP if relayer_of(request) == "lost" else None
    with pytest.raises(CommandError, match="connection was closed"):
        call_command(send_outbox.Command(), once=True)
    assert statuses() == {"first": "queued", "second": "pending"}


@pytest.mark.long
def test_healthy_relayers_are_not_delayed(outbox: None, fake: FakeService, client: Client) -> None:
    healthy, others = ["h1", "h2", "h3"], {"refusing": SPENDING, "missing": NOT_FOUND}

    def refuse(request: Request) -> Answer | None:
        return others.get(relayer_of(request)) if request.method == "POST" else None

    fake.refusal = refuse
    for relayer in [*others, *healthy]:
        for number in range(100 if relayer in others else 20):
            add(f"{relayer}-{number}", relayer=relayer)
    while run_once(client).has_more:
        pass
    turns = {relayer: [index for index, each in enumerate(fake.senders) if each == relayer] for relayer in healthy}
    # Of the n-th row of each, at most n of each other relayer are ahead; batches begin with the first relayer again.
    assert all(index <= 5 * (number + 2) for indexes in turns.values() for number, index in enumerate(indexes))
    assert [len(indexes) for indexes in turns.values()] == [20] * 3
    found = {key.partition("-")[0]: status for key, status in statuses().items()}
    assert found == {"refusing": "queued", "missing": "failed"} | dict.fromkeys(healthy, "pending")
    assert len(fake.accepted) == 60
