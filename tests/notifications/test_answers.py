"""What a target may answer: what counts as success, how long it may take, and what is kept of it."""

from __future__ import annotations

import gzip
import ipaddress
from datetime import timedelta

import pytest
from pytest_django import Settings

from notifications.delivery import posting
from tests.concurrency import PATIENCE_SECONDS
from tests.notifications.factories import attempt, make_delivery, send
from tests.notifications.receivers import Behaviour, answer, close, hang, in_turn, raw, receiver, slow

BROKE = "The connection was closed before the response was complete."
NOT_HTTP = "The response is not HTTP."
LATE = "No response in time."
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(autouse=True)
def opened(settings: Settings) -> None:
    settings.WEBHOOK_ALLOWED_PRIVATE_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
    settings.WEBHOOK_TIMEOUT_SECONDS = PATIENCE_SECONDS


@pytest.fixture
def one_second(settings: Settings) -> None:
    settings.WEBHOOK_TIMEOUT_SECONDS = 1


def attempt_at(behaviour: Behaviour) -> posting.Outcome:
    with receiver(behaviour) as server:
        return attempt(server.url)


def attempts_at(*behaviours: Behaviour) -> list[posting.Outcome]:
    """Attempt a delivery for each of these behaviours, in a session."""
    with receiver(in_turn(*behaviours)) as server:
        return send(*(make_delivery(server.url) for _ in behaviours))


def test_any_2xx_is_success_and_any_other_status_is_not() -> None:
    good = [200, 201, 202, 204, 206, 226, 299]
    bad = [300, 301, 302, 304, 307, 400, 401, 404, 408, 410, 429, 500, 503, 599, 999]
    outcomes = attempts_at(*(answer(status) for status in [*good, *bad]))
    assert [(each.response_code, each.error) for each in outcomes if each.succeeded] == [(code, "") for code in good]
    failed = [(each.response_code, each.error) for each in outcomes if not each.succeeded]
    assert failed == [(status, f"Returned HTTP {status}.") for status in bad]
    assert [each.response_code for each in outcomes if each.gone] == [410]


def test_an_interim_answer_is_passed_over() -> None:
    final = OK + b"Content-Length: 2\r\n\r\nok"
    interim = [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"]
    outcomes = [attempt_at(raw(before, final)) for before in interim]
    assert [(each.response_code, each.answer) for each in outcomes] == [(200, "ok")] * 2


BROKEN: list[tuple[Behaviour, int | None, str]] = [
    (raw(b"HTTP/1.1 199 Odd\r\n\r\n"), None, BROKE),
    (raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), 101, "Returned HTTP 101."),
    (raw(b"HTTP/1.1 2000 OK\r\n\r\n"), None, NOT_HTTP),
    (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), None, NOT_HTTP),
    (raw(b"\x00\xff" * 1000), None, NOT_HTTP),
    (raw(b"HTTP/1.1 20"), None, BROKE),
    (raw(OK + b"Content-Length: -1\r\n\r\n"), None, NOT_HTTP),
    (raw(OK + b"X: " + b"a" * 1_000_000), None, NOT_HTTP),
    (raw(OK + b"X: a\r\n" * 100_000), None, NOT_HTTP),
    (raw(b"H" * 1_000_000), None, NOT_HTTP),
    (close, None, BROKE),
]


def test_an_answer_that_is_none_is_a_failure() -> None:
    outcomes = attempts_at(*(behaviour for behaviour, _, _ in BROKEN))
    assert not any(each.succeeded or each.answer for each in outcomes)
    assert [(each.response_code, each.error) for each in outcomes] == [(code, said) for _, code, said in BROKEN]


@pytest.mark.parametrize(
    "behaviour",
    [
        hang,
        slow(30),
        raw(*[b"H", b"TTP/1.1 200 OK\r\n", *[b"X-Header: 1\r\n"] * 300], seconds=0.1),
        raw(*[b"HTTP/1.1 103 Early Hints\r\n\r\n"] * 300, seconds=0.1),
    ],
    ids=["silent", "slow", "drips headers", "drips interim answers"],
)
@pytest.mark.usefixtures("one_second")
def test_connection_and_answer_have_one_second_together(behaviour: Behaviour) -> None:
    outcome = attempt_at(behaviour)
    assert (outcome.response_code, outcome.error) == (None, LATE)
    # None of them would have been done in half a minute.
    assert 1000 <= outcome.milliseconds < 20_000


@pytest.mark.usefixtures("one_second")
def test_a_body_that_drips_is_cut_off_and_its_status_counts() -> None:
    outcome = attempt_at(raw(OK + b"\r\n", *[b"a"] * 300, seconds=0.1))
    assert (outcome.response_code, outcome.error) == (200, "")
    assert set(outcome.answer) <= {"a"}
    assert len(outcome.answer) < 200
    outcome = attempt_at(raw(b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\n\r\n", *[b"a"] * 30, seconds=0.2))
    assert (outcome.response_code, outcome.error) == (503, "Returned HTTP 503.")
    assert outcome.retry_after == timedelta(seconds=7)


def test_two_kilobytes_of_the_answer_are_kept_as_text() -> None:
    kept = {
        b"": "",
        b"thanks": "thanks",
        b"a" * 2048: "a" * 2048,
        b"a" * 2049: "a" * 2048,
        b"a" * 5_000_000: "a" * 2048,
        b"a" * 2047 + "\u00fc".encode(): "a" * 2047 + "\ufffd",
        b"gr\xc3\xbc\x00b\xffc": "gr\u00fc\ufffdb\ufffdc",
    }
    outcomes = attempts_at(*(answer(200, body) for body in kept))
    assert [(each.response_code, each.answer) for each in outcomes] == [(200, text) for text in kept.values()]


def test_a_compressed_answer_is_kept_as_it_came_and_not_unpacked() -> None:
    packed = gzip.compress(b"a" * 10_000_000)
    outcome = attempt_at(answer(200, packed, {"Content-Encoding": "gzip"}))
    assert outcome.succeeded
    assert outcome.answer == posting.as_text(bytearray(packed[:2048]))


def test_an_answer_that_ends_early_keeps_its_status() -> None:
    outcome = attempt_at(raw(OK + b"Content-Length: 50\r\n\r\n", b"half", seconds=0.1))
    assert (outcome.response_code, outcome.answer, outcome.error) == (200, "half", "")


def test_retry_after_is_read_where_it_has_a_meaning() -> None:
    headers = {"Retry-After": "120"}
    garbage = raw(b"HTTP/1.1 503 Busy\r\nRetry-After: \xff\xfe\r\nContent-Length: 0\r\n\r\n")
    outcomes = attempts_at(*(answer(status, headers=headers) for status in (429, 503, 500, 200, 302)), garbage)
    assert [each.retry_after for each in outcomes] == [*[timedelta(seconds=120)] * 2, *[None] * 4]
