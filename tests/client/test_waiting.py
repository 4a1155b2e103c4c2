"""Waiting for a transaction: its end, a time limit, outages, and webhooks that end a pause."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from relayer_client import NO_RETRIES, AsyncClient, errors, retries
from relayer_client.webhooks import Event
from tests.client.examples import CANCELED, CONFIRMED, EXPIRED, FAILED, SUBMITTED, TRANSACTION
from tests.client.scripted_server import DROP, Answer, calling, ok, refused, scripted

ID = TRANSACTION["id"]
AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_POLL_SECONDS", 0.0)


def wait(*script: Answer, **arguments: Any) -> Any:
    with calling(*script, retries=NO_RETRIES) as (_server, client):
        return client.relayer("sender").wait(ID, **arguments)


def test_a_transaction_is_read_until_it_is_confirmed() -> None:
    assert wait(ok(TRANSACTION), ok(SUBMITTED), ok(CONFIRMED)).status == "confirmed"


def test_a_later_status_suffices() -> None:
    assert wait(ok(TRANSACTION), ok(SUBMITTED), until="sent").status == "submitted"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (FAILED, errors.TransactionFailed),
        (EXPIRED, errors.TransactionExpired),
        (CANCELED, errors.TransactionCanceled),
    ],
)
def test_an_unsuccessful_end_is_raised_or_returned(
    body: dict[str, Any], kind: type[errors.TransactionUnsuccessful]
) -> None:
    with pytest.raises(kind) as raised:
        wait(ok(body), until="sent")
    assert raised.value.transaction == wait(ok(body), until="final")


def test_the_time_limit_has_the_transaction() -> None:
    with pytest.raises(errors.WaitTimeout) as raised:
        wait(ok(SUBMITTED), timeout=0)
    assert raised.value.transaction_id == ID
    assert raised.value.transaction is not None
    assert raised.value.transaction.hash == SUBMITTED["hash"]


def test_outages_are_waited_out() -> None:
    throttled, unavailable = refused(429, "throttled"), refused(503, "unavailable")
    assert wait(DROP, throttled, unavailable, Answer(502, b""), ok(CONFIRMED)).status == "confirmed"


def test_an_outage_until_the_time_limit_is_its_cause() -> None:
    with pytest.raises(errors.WaitTimeout, match="could not be read") as raised:
        wait(DROP, timeout=0)
    assert isinstance(raised.value.__cause__, errors.ConnectionLost)


def test_an_error_that_stays_is_raised() -> None:
    with pytest.raises(errors.NotFound):
        wait(refused(404, "not_found"))


def event(type_: str = "transaction.confirmed", **data: Any) -> Event:
    return Event(id="msg_1", type=type_, timestamp=AT, data={"id": ID} | data)


def test_a_webhook_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_POLL_SECONDS", 3600.0)
    found = []
    with calling(ok(SUBMITTED), ok(CONFIRMED)) as (_server, client):
        relayer = client.relayer("sender")
        thread = threading.Thread(target=lambda: found.append(relayer.wait(ID, timeout=7200)))
        thread.start()
        while thread.is_alive():
            # An event of another transaction, and one without a transaction, do nothing.
            for each in (event(id="another"), event("relayer.paused"), event()):
                client.notify(each)
            thread.join(0.01)
    assert [transaction.status for transaction in found] == ["confirmed"]


def test_a_webhook_ends_a_pause_of_a_coroutine_from_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_POLL_SECONDS", 3600.0)

    async def call(url: str) -> Any:
        async with AsyncClient(url, "t") as client:
            waiting = asyncio.create_task(client.relayer("sender").wait(ID, timeout=7200))
            while not waiting.done():
                await asyncio.to_thread(client.notify, event())
                await asyncio.sleep(0.01)
            return await waiting

    with scripted(ok(SUBMITTED), ok(CONFIRMED)) as server:
        assert asyncio.run(call(server.url)).status == "confirmed"


def test_pauses_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_POLL_SECONDS", 0.2)
    pauses = retries.poll_pauses()
    found = [next(pauses) for _ in range(20)]
    assert found[:3] == pytest.approx([0.2, 0.3, 0.45])
    assert found[-1] == 5.0
