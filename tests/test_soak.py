"""The rules by which `make soak` judges: each must find what it is for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from benchmarks.soak import answers, chaos, logs, memory, send_verdict, verdict
from benchmarks.soak.answers import CALL, CUT, HTML, NO_ANSWER, OTHER, PAGE, RESOURCE, UNAVAILABLE, WEB_KILLED
from benchmarks.soak.callers import Pauser, Prober
from benchmarks.soak.client import Site
from benchmarks.soak.receiver import Receiver
from benchmarks.soak.rows import Row
from benchmarks.soak.send_verdict import Requested
from benchmarks.soak.verdict import Emitted
from tests.servers import PROJECT

METADATA: dict[str, list[Any]] = {"logs": [], "traces": []}
CREATED = {"data": {"id": "a"}, "error": "", "metadata": METADATA, "success": True}
PAGE_OF_NONE = CREATED | {"data": [], "pagination": {"current_page": 1, "per_page": 10, "total_items": 0}}
FAILED = {"data": None, "message": "Service Unavailable", "success": False}
ESTIMATED: dict[str, Any] = {"jsonrpc": "2.0", "id": "1", "result": {}}
FAILED_CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": "1", "error": {"code": -32603}}


@pytest.mark.parametrize(
    ("shape", "status", "body", "judged"),
    [
        (RESOURCE, 200, CREATED, ("200", "")),
        (PAGE, 200, PAGE_OF_NONE, ("200", "")),
        (CALL, 200, ESTIMATED, ("200", "")),
        (RESOURCE, 503, FAILED, ("503", UNAVAILABLE)),
        (RESOURCE, 401, FAILED, ("401", OTHER)),
        (CALL, 200, FAILED_CALL, ("200 (-32603)", UNAVAILABLE)),
        (CALL, 503, FAILED, ("503", UNAVAILABLE)),
        (PAGE, 200, CREATED, ("200 malformed", OTHER)),
        (RESOURCE, 200, FAILED, ("200 malformed", OTHER)),
        (RESOURCE, 503, CREATED, ("503 malformed", OTHER)),
        (RESOURCE, 503, FAILED | {"trace": ""}, ("503 malformed", OTHER)),
        (RESOURCE, 200, [CREATED], ("200 malformed", OTHER)),
    ],
)
def test_an_answer_of_the_api_is_judged_by_its_status_and_all_its_keys(
    shape: str, status: int, body: object, judged: tuple[str, str]
) -> None:
    assert answers.judge(shape, {200}, status, "application/json", orjson.dumps(body)) == judged


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/html", orjson.dumps(CREATED)), ("application/json", b"<html>"), ("application/json", b"")],
)
def test_what_is_no_json_is_malformed(content_type: str, body: bytes) -> None:
    assert answers.judge(RESOURCE, {200}, 200, content_type, body) == ("200 malformed", OTHER)


def test_a_page_that_was_cut_off_is_none() -> None:
    assert answers.judge(HTML, {200}, 200, "text/html", b"<html></html>\n") == ("200", "")
    assert answers.judge(HTML, {200}, 200, "text/html", b"<html>") == ("200", OTHER)


@pytest.mark.parametrize(
    ("trouble", "done", "ended", "excused"),
    [
        (NO_ANSWER, WEB_KILLED, 10.5, True),
        (NO_ANSWER, WEB_KILLED, 9.9, False),
        (NO_ANSWER, WEB_KILLED, 11.5, False),
        (NO_ANSWER, CUT, 10.5, False),
        (UNAVAILABLE, CUT, 12.0, True),
        (UNAVAILABLE, CUT, 9.9, False),
        (UNAVAILABLE, CUT, 14.0, False),
        (UNAVAILABLE, WEB_KILLED, 10.5, False),
        (OTHER, CUT, 10.5, False),
    ],
)
def test_only_what_a_blow_explains_is_excused_and_only_for_a_while(
    trouble: str, done: str, ended: float, excused: bool
) -> None:
    answer = answers.Answer("list", "503", ended - 0.1, ended, trouble)
    assert answers.is_excused(answer, [answers.Disturbance(done, 10.0)]) is excused


@pytest.mark.parametrize(
    ("trouble", "done", "ended", "excused"),
    [
        (NO_ANSWER, WEB_KILLED, 19.5, True),
        (NO_ANSWER, WEB_KILLED, 20.5, False),
        (UNAVAILABLE, CUT, 39.5, True),
        (UNAVAILABLE, CUT, 40.5, False),
        (OTHER, CUT, 10.5, False),
    ],
)
def test_patience_excuses_for_longer_and_nothing_else(trouble: str, done: str, ended: float, excused: bool) -> None:
    answer = answers.Answer("list", "503", ended - 0.1, ended, trouble)
    assert answers.is_excused(answer, [answers.Disturbance(done, 10.0)], patience=10) is excused


def test_a_soak_kills_cuts_and_stops_as_often_as_it_says() -> None:
    planned = chaos.plan(chaos.Pace(120))
    assert planned == [
        (15.0, "Redis stopped"),
        (20, "worker killed"),
        (25.0, "Redis started"),
        (30, "database connections cut"),
        (40, "web process killed"),
        (40, "worker killed"),
        (55.0, "Redis stopped"),
        (60, "database connections cut"),
        (60, "worker killed"),
        (65.0, "Redis started"),
        (80, "web process killed"),
        (80, "worker killed"),
        (90, "database connections cut"),
        (100, "worker killed"),
    ]


def test_the_slope_of_memory_is_that_of_the_second_half() -> None:
    samples = [(0.0, 100.0), (5.0, 900.0), (10.0, 1000.0), (15.0, 1010.0), (20.0, 1020.0)]
    assert memory.slope_per_minute(samples) == pytest.approx(120)


@pytest.mark.parametrize(
    ("seconds", "slope", "faults"),
    [(300, 5_000, []), (299, 9_000, []), (300, 5_001, ["a worker grows by 5,001 KB a minute"])],
)
def test_a_process_that_is_warm_and_still_grows_leaks(seconds: int, slope: int, faults: list[str]) -> None:
    line = {"process": "worker", "seconds": seconds, "slope_kilobytes_per_minute": slope}
    assert memory.leaks([line]) == faults


def test_the_exception_of_a_traceback_is_the_last_whatever_its_text_has() -> None:
    head, frame = "Traceback (most recent call last):\n", '  File "a.py", line 1, in f\n    g()\n'
    cause = f"{head}{frame}psycopg.errors.AdminShutdown: ended\n\nThe above exception was the direct cause:\n\n"
    text = f"{cause}{head}{frame}django.db.utils.OperationalError: ended\nCONTEXT:  while locking a tuple"
    assert logs.exception_of(text) == "django.db.utils.OperationalError"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server_close()


def emitted(identifier: str, event: str = "relayer.paused", state: str = "delivered") -> Emitted:
    relayer = None if event == "notification.test" else "relayer"
    return Emitted(identifier, event, "target", state, created_at=0.0, relayer=relayer)


def test_a_webhook_is_lost_unless_it_arrived_and_is_known_to_have(receiver: Receiver) -> None:
    receiver.taken = {"a": [1.0, 2.0], "b": [1.0], "d": [1.0]}
    rows = [emitted("a"), emitted("b", state="pending"), emitted("c")]
    assert verdict.lost_webhooks(rows, receiver) == [
        "c (relayer.paused) never arrived",
        "b (relayer.paused) is pending",
        "d arrived and was never emitted",
    ]


@pytest.mark.parametrize(
    ("acknowledged", "unanswered", "events", "faults"),
    [
        (2, 0, ["relayer.paused", "relayer.resumed"], []),
        (1, 1, ["relayer.paused", "relayer.resumed"], []),
        (2, 0, ["relayer.paused"], ["relayer: 1 events for 2 acknowledged changes"]),
        (1, 0, ["relayer.paused", "relayer.resumed"], ["relayer: 2 events for 1 acknowledged changes"]),
    ],
)
def test_a_change_that_was_acknowledged_has_one_event(
    acknowledged: int, unanswered: int, events: list[str], faults: list[str]
) -> None:
    pauser = Pauser(Site(1, "", {}), Row(1, "relayer"))
    pauser.acknowledged, pauser.unanswered = acknowledged, unanswered
    rows = [emitted(str(number), event) for number, event in enumerate(events)]
    assert verdict.lost_events(rows, [pauser], []) == faults


@pytest.mark.parametrize(
    ("rows", "faults"), [(2, []), (3, []), (1, ["target: 1 test events for 2 acknowledged ones"])]
)
def test_a_test_event_that_was_not_acknowledged_may_have_been_emitted(rows: int, faults: list[str]) -> None:
    prober = Prober(Site(1, "", {}), Row(1, "target"))
    prober.acknowledged, prober.unanswered = 2, 1
    sent = [emitted(str(number), "notification.test") for number in range(rows)]
    assert verdict.lost_events(sent, [], [prober]) == faults


@pytest.mark.parametrize(
    ("status", "requested", "figure", "faults", "faults_of_trust"),
    [
        ("confirmed", Requested(1, "a"), "final", [], []),
        ("canceled", Requested(0, "a", cancel_requested=True), "final", [], []),
        ("confirmed", Requested(2, "a"), "doubled", ["the request 7 was executed 2 times"], []),
        ("submitted", Requested(0, "a"), "stuck", [], ["a is submitted: why"]),
        (
            "confirmed",
            Requested(0, "a"),
            "contradicted",
            [],
            ["the request 7 is confirmed and was not executed"],
        ),
        (
            "canceled",
            Requested(1, "a", cancel_requested=True),
            "contradicted",
            [],
            ["the request 7 is canceled and was executed: why"],
        ),
        ("canceled", Requested(0, "a"), "final", [], ["a is canceled: why"]),
        ("confirmed", Requested(1, "b"), "lost", ["b was accepted and is not stored"], []),
    ],
)
def test_statuses_are_compared_with_what_was_executed(
    status: str, requested: Requested, figure: str, faults: list[str], faults_of_trust: list[str]
) -> None:
    judged = send_verdict.compare({"a": (status, "why")}, {7: requested})
    assert (judged.figures[figure], judged.faults, judged.faults_of_trust) == (1, faults, faults_of_trust)


def test_what_was_spent_over_a_limit_is_counted_by_sender() -> None:
    limits = {"max_value_per_day": 10}
    over, faults = send_verdict.over_limit("value", {"0xa": 10, "0xb": 13}, limits)
    assert (over, faults) == (3, ["0xb spent 3 wei of value over its limit of 10"])
    assert send_verdict.over_limit("gas_cost", {"0xb": 13}, limits) == (0, [])


@pytest.mark.long
@pytest.mark.one_engine
@pytest.mark.skipif(not shutil.which("redis-server"), reason="there is no redis-server")
@pytest.mark.parametrize("mode", ["service", "client"])
def test_a_short_soak_finds_no_fault(mode: str) -> None:
    # With the patience of a machine that is shared: promises are kept or not, however long all takes.
    command = [sys.executable, "-m", "benchmarks.soak", "--mode", mode, "--fast", "--patience", "10"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)
    if "The soak is void: Hardhat" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["0 faults."]), done.stdout + done.stderr
