"""Waiting for a transaction: its end, a time limit, outages, and webhooks that end a pause."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from relayer_client import NO_RETRIES, AsyncClient, Client, Retries, errors, retries
from relayer_client.webhooks import Event
from tests.client.examples import CANCELED, CONFIRMED, EXPIRED, FAILED, SUBMITTED, TRANSACTION
from tests.client.scripted_server import DROP, Answer, Request, ScriptedServer, calling, ok, refused, scripted
from tests.servers import serving

ID = TRANSACTION["id"]
AT = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "FIRST_POLL_SECONDS", 0.0)


def wait(*script: Answer, **arguments: Any) -> Any:
    with calling(*script, retries=NO_RETRIES) as (_server, client):
        return client.relayer("sender").wait(ID, **arguments)


def test_a_transaction_is_read_until_it_has_the_status_or_a_later_one() -> None:
    assert wait(ok(TRANSACTION), ok(SUBMITTED), ok(CONFIRMED)).status == "confirmed"
    assert wait(ok(TRANSACTION), ok(SUBMITTED), until="sent").status == "submitted"
    # The status of a newer service is unknown.
    assert wait(ok(SUBMITTED | {"status": "included"}), ok(CONFIRMED), until="sent").status == "confirmed"


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


@pytest.mark.parametrize("timeout", [0, -3600.0])
def test_the_time_limit_has_the_transaction(timeout: float) -> None:
    with pytest.raises(errors.WaitTimeout) as raised:
        wait(ok(SUBMITTED), timeout=timeout)
    assert raised.value.transaction_id == ID
    assert raised.value.transaction is not None
    assert raised.value.transaction.hash == SUBMITTED["hash"]


def test_outages_are_waited_out_until_the_time_limit() -> None:
    throttled, unavailable = refused(429, "throttled"), refused(503, "unavailable")
    assert wait(DROP, throttled, unavailable, Answer(502, b""), ok(CONFIRMED)).status == "confirmed"
    with pytest.raises(errors.WaitTimeout, match="could not be read") as raised:
        wait(DROP, timeout=0)
    assert isinstance(raised.value.__cause__, errors.ConnectionLost)
    with pytest.raises(errors.NotFound):
        wait(refused(404, "not_found"))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_service_that_never_answers_ends_at_the_time_limit(is_async: bool) -> None:
    def call(url: str) -> None:
        with Client(url, "t") as client:
            client.relayer("sender").wait(ID, timeout=0.4)

    async def call_async(url: str) -> None:
        async with AsyncClient(url, "t") as client:
            await client.relayer("sender").wait(ID, timeout=0.4)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(errors.WaitTimeout) as raised:
            asyncio.run(call_async(url)) if is_async else call(url)
        assert 0.3 < time.monotonic() - started < 3
    assert isinstance(raised.value.__cause__, errors.TimedOut)


class Trickling(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        try:
            for _ in range(200):
                time.sleep(0.1)
                self.wfile.write(b"H")
        except OSError:
            pass


def test_a_response_that_trickles_in_ends_at_the_time_limit_of_a_coroutine() -> None:
    async def call(url: str) -> None:
        async with AsyncClient(url, "t") as client:
            await client.relayer("sender").wait(ID, timeout=0.4)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Trickling)
    server.daemon_threads = True
    with serving(server, threading.Event()), pytest.raises(errors.WaitTimeout):
        asyncio.run(asyncio.wait_for(call(f"http://127.0.0.1:{server.server_address[1]}"), 10))


@pytest.mark.parametrize("answer", [DROP, refused(429, "throttled", Retry_After="20"), refused(503, "unavailable")])
def test_pauses_of_retries_end_at_the_time_limit(answer: Answer) -> None:
    started = time.monotonic()
    with calling(answer, retries=Retries(first_pause=20)) as (_server, client), pytest.raises(errors.WaitTimeout):
        client.relayer("sender").wait(ID, timeout=0.3)
    assert time.monotonic() - started < 3


def test_an_unknown_status_to_wait_for_is_refused() -> None:
    with (
        calling(ok(CONFIRMED)) as (server, client),
        pytest.raises(ValueError, match="one of sent, submitted, mined, confirmed, final, not 'confimed'"),
    ):
        client.relayer("sender").wait(ID, until="confimed")  # type: ignore[arg-type]  # a typing error
    assert server.requests == []


def test_several_transactions_share_a_time_limit() -> None:
    other = FAILED | {"id": "00000000-0000-4000-8000-000000000000"}
    with calling(ok(SUBMITTED), ok(CONFIRMED), ok(other), retries=NO_RETRIES) as (server, client):
        relayer = client.relayer("sender")
        done = relayer.wait_all([ID, other["id"]], "final")
        assert [(each.id, each.status) for each in done] == [(ID, "confirmed"), (other["id"], "failed")]
        assert [request.path[-36:] for request in server.requests] == [ID, ID, other["id"]]
        with pytest.raises(errors.TransactionFailed):
            relayer.wait_all([other["id"]])
    with calling(ok(SUBMITTED), retries=NO_RETRIES) as (server, client), pytest.raises(errors.WaitTimeout):
        client.relayer("sender").wait_all([ID, ID], timeout=0)
    assert len(server.requests) == 1


class Slow(ScriptedServer):
    def next(self, request: Request) -> Answer:
        time.sleep(0.4)
        return super().next(request)


def test_readings_of_several_transactions_share_the_time_limit() -> None:
    server = Slow([ok(CONFIRMED)])
    server.daemon_threads = True
    with serving(server, threading.Event()), Client(server.url, "t") as client, pytest.raises(errors.WaitTimeout):
        # A second for all.
        client.relayer("sender").wait_all([ID] * 5, timeout=0)


JOB = {"id": "17", "kind": "pause_relayers", "state": "running", "total": 2, "done": 1, "skipped": 0, "failed": 0}
JOB |= {"failures": [], "created_at": "2026-11-16T12:00:00.000000Z"}


@pytest.mark.parametrize("state", ["finished", "stopped"])
def test_a_job_is_read_until_it_ends(state: str) -> None:
    with calling(ok(JOB), DROP, ok(JOB | {"state": state}), retries=NO_RETRIES) as (_server, client):
        assert client.wait_job("17").state == state


def test_a_job_that_does_not_end_in_time_is_raised() -> None:
    with calling(ok(JOB)) as (_server, client):
        job = client.get_job("17")
        with pytest.raises(errors.JobTimeout, match="is running, 1 of 2 done") as raised:
            client.wait_job(job, timeout=0)
    assert (raised.value.job_id, raised.value.job) == ("17", job)


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
