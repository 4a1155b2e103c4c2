"""A key at Turnkey, against a stand-in for its API."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic
from typing import Any

import pytest

from relayer_service.observability import tracing
from signers.backends.base import Signature, SignerError
from signers.backends.http import PAUSES, Unavailable, retried, seconds_to_wait
from signers.backends.turnkey import Turnkey
from tests.signers.backends.turnkey_server import QUERY, SUBMIT, TurnkeyServer
from tests.signers.backends.vault_server import Answer, all_that_shows, everything_logged, failure
from tests.traces import TRACEPARENT, continues

API_PRIVATE_KEY = "11" * 31 + "22"
PUBLIC_KEY = TurnkeyServer.key.public_key
ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
DIGEST = bytes(range(32))
CREATED, PENDING, CONSENSUS_NEEDED, FAILED, REJECTED = (
    f"ACTIVITY_STATUS_{name}" for name in ("CREATED", "PENDING", "CONSENSUS_NEEDED", "FAILED", "REJECTED")
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnkeyServer]:
    with TurnkeyServer() as server:
        monkeypatch.setenv("TURNKEY_API_URL", server.url)
        yield server


def turnkey(**changes: str) -> Turnkey:
    config = {
        "api_private_key": API_PRIVATE_KEY,
        "api_public_key": TurnkeyServer.api_public_key,
        "organization_id": TurnkeyServer.organization_id,
        "private_key_id": TurnkeyServer.private_key_id,
        "public_key": PUBLIC_KEY.to_compressed_bytes().hex(),
    }
    return Turnkey({**config, **changes})


def expected(digest: bytes) -> Signature:
    signature = TurnkeyServer.key.sign_msg_hash(digest)
    return Signature(signature.r, signature.s, signature.v)


def completed(result: Any) -> dict[str, Any]:
    return {"id": "1", "status": "ACTIVITY_STATUS_COMPLETED", "result": result}


def signed(*numbers: object) -> dict[str, Any]:
    return {"signRawPayloadResult": dict(zip("rs", numbers, strict=False))}


def test_digests_are_signed_by_the_key_at_turnkey_over_one_connection(server: TurnkeyServer) -> None:
    backend = turnkey()
    assert backend.address() == ADDRESS
    for number in range(3):
        digest = bytes([number]) * 32
        assert backend.sign_digest(digest) == expected(digest)
    assert (server.paths, server.connections) == ([SUBMIT] * 3, 1)


def test_a_request_continues_the_trace_that_it_is_for(server: TurnkeyServer) -> None:
    with tracing.following(TRACEPARENT):
        turnkey().sign_digest(DIGEST)
    assert [continues(asked.headers["traceparent"]) for asked in server.asked] == [True]


def test_the_public_key_is_compressed_or_not() -> None:
    compressed, point = PUBLIC_KEY.to_compressed_bytes().hex(), PUBLIC_KEY.to_bytes().hex()
    for public_key in (compressed, f"0x{compressed}", f"04{point}", f"0x04{point.upper()}"):
        assert turnkey(public_key=public_key).address() == ADDRESS
    for public_key in ("x", "0x", point, "02" + "ff" * 32, "04" + "11" * 64):
        with pytest.raises(SignerError, match=r"^public_key is not a secp256k1 public key in hex\.$") as caught:
            turnkey(public_key=public_key).address()
        assert caught.value.permanent


def test_threads_get_the_signature_of_their_own_digest(server: TurnkeyServer) -> None:
    backend = turnkey()
    digests = [bytes([number]) * 32 for number in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(backend.sign_digest, digests)) == [expected(digest) for digest in digests]


def test_an_unfinished_activity_is_asked_after(server: TurnkeyServer, pauses: list[float]) -> None:
    server.states = [CREATED, PENDING, CONSENSUS_NEEDED]
    assert turnkey().sign_digest(DIGEST) == expected(DIGEST)
    assert server.paths == [SUBMIT, QUERY, QUERY, QUERY]
    assert pauses == [0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    ("state", "problem", "permanent"),
    [
        (PENDING, "Turnkey did not complete the signature in time.", False),
        (CONSENSUS_NEEDED, "Turnkey's policies require more approvals for this signature.", True),
    ],
)
def test_an_activity_that_stays_unfinished_is_given_up(
    server: TurnkeyServer, pauses: list[float], state: str, problem: str, permanent: bool
) -> None:
    server.states = [state] * 10
    assert failure(turnkey()) == (problem, permanent)
    assert server.paths == [SUBMIT, *[QUERY] * 5]
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0]


def test_an_activity_that_ends_otherwise_has_no_signature(server: TurnkeyServer) -> None:
    for states in ([FAILED], [REJECTED], [PENDING, REJECTED], ["ACTIVITY_STATUS_OF_TOMORROW"]):
        server.states = states
        assert failure(turnkey()) == ("Turnkey failed or rejected the signature.", True)


def test_a_new_signature_is_a_new_activity_and_another_try_is_the_same(
    server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    server.plan(SUBMIT, Answer(502, b"<html>"), Answer(429, {"code": 8}))
    backend = turnkey()
    backend.sign_digest(DIGEST)
    assert (len({asked.body for asked in server.asked}), len(server.asked), len(server.activities)) == (1, 3, 1)
    assert pauses == [0.2, 0.6]
    first = int(json.loads(server.asked[0].body)["timestampMs"])
    monkeypatch.setattr("signers.backends.turnkey.time_ns", lambda: (first + 2) * 1_000_000)
    backend.sign_digest(DIGEST)
    assert len(server.activities) == 2
    assert json.loads(server.asked[-1].body)["timestampMs"] == str(first + 2)


def test_a_wrong_configuration_is_refused_for_good(server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = {"api_public_key": "03ff0d11aa35ec16f47ebfefe3c5a9b9ec3b1a5d3c9b9cb7ca7f9fa9e2c1c0a1b2"}
    generator = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    for changes, problem in (
        ({"organization_id": "another"}, "Turnkey refused this signer's credentials (HTTP 403)."),
        ({"private_key_id": "another"}, "Turnkey did not find this signer's key (HTTP 404)."),
        ({"public_key": generator}, "The returned signature was not made with this signer's key."),
        *(
            (each, "api_private_key and api_public_key are not a P-256 key pair in hex.")
            for each in (stranger, *({"api_private_key": key} for key in ("x", "00", "ff" * 32)))
        ),
    ):
        assert failure(turnkey(**changes)) == (problem, True)
    known_to_us = TurnkeyServer.api_public_key
    server.api_public_key = "02217e617f0b6443928278f96999e69a23a4f2c152bdf6d6cdf66e5b80282d4ed0"
    refused = "Turnkey refused this signer's credentials (HTTP 401)."
    assert failure(turnkey(api_public_key=known_to_us)) == (refused, True)
    server.api_public_key = known_to_us
    monkeypatch.setattr("signers.backends.turnkey.time_ns", lambda: 1_700_000_000_000_000_000)
    assert failure(turnkey()) == ("Turnkey refused the request (HTTP 400). Check the config.", True)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (408, "Turnkey is unavailable (HTTP 408)."),
        (429, "Turnkey is throttling requests."),
        (500, "Turnkey is unavailable (HTTP 500)."),
        (503, "Turnkey is unavailable (HTTP 503)."),
    ],
)
def test_a_fault_that_stays_is_told_after_three_tries(server: TurnkeyServer, status: int, problem: str) -> None:
    server.plan(SUBMIT, *[Answer(status, {"code": 8})] * 3)
    assert failure(turnkey()) == (problem, False)
    assert server.paths == [SUBMIT] * 3


def test_the_pause_that_turnkey_asks_for_is_kept(server: TurnkeyServer, pauses: list[float]) -> None:
    for asked_for in ("0", "2", "5", "soon"):
        server.plan(SUBMIT, Answer(429, {}, {"Retry-After": asked_for}))
        turnkey().sign_digest(DIGEST)
    assert pauses == [0.2, 2.0, 5.0, 0.2]
    # One that is too long is not waited for.
    server.plan(SUBMIT, Answer(429, {}, {"Retry-After": "6"}))
    assert failure(turnkey()) == ("Turnkey is throttling requests.", False)
    assert (len(server.paths), len(pauses)) == (9, 4)


def test_a_pause_may_be_asked_for_with_a_date() -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    seconds = seconds_to_wait({"Retry-After": format_datetime(in_an_hour, usegmt=True)})
    assert 3500 < seconds <= 3600
    assert seconds_to_wait({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert seconds_to_wait({"Retry-After": "Wed, 21 Oct 2015 07:28:00 -0000"}) == 0.0
    assert seconds_to_wait({"Retry-After": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}) == 0.0


def test_no_try_begins_after_the_time_of_the_call() -> None:
    tries = []

    def call(seconds: float) -> None:
        tries.append(seconds)
        raise Unavailable("The provider is busy.")

    with pytest.raises(Unavailable):
        retried(call, until=monotonic() + PAUSES[0] / 2)
    assert len(tries) == 1


def test_an_answer_of_another_shape_is_not_understood(server: TurnkeyServer) -> None:
    results: list[Any] = [None, [], {}, signed("1"), signed("z", "1"), signed(1, 1)]
    activities: list[Any] = [
        *(None, {"id": "1"}, {"id": "1", "status": ["ACTIVITY_STATUS_COMPLETED"]}),
        {"status": "ACTIVITY_STATUS_PENDING"},
        *map(completed, results),
    ]
    contents: list[Any] = [b"<html>", b"\xff", b"", [], {}]
    for content in (*contents, *({"activity": each} for each in activities)):
        server.plan(SUBMIT, Answer(200, content))
        assert failure(turnkey()) == ("Turnkey returned an invalid response.", False)
    # Numbers that are no signature.
    for r, s in (("0", "0"), ("-1", "-1"), ("f" * 64, "1"), ("f" * 200, "f" * 200)):
        server.plan(SUBMIT, Answer(200, {"activity": completed(signed(r, s))}))
        assert failure(turnkey()) == ("The returned signature was not made with this signer's key.", True)


def test_a_redirect_is_not_followed(server: TurnkeyServer) -> None:
    server.plan(SUBMIT, Answer(307, b"", {"Location": f"{server.url}/elsewhere"}))
    assert failure(turnkey()) == (
        "Turnkey returned a redirect (HTTP 307). Check its address.",
        True,
    )
    assert server.paths == [SUBMIT]


def test_a_server_that_does_not_answer_is_not_waited_for(
    server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("signers.backends.http.ATTEMPT_SECONDS", 0.5)
    server.plan(SUBMIT, *[Answer(200, {}, hang=True)] * 3)
    unreachable = ("Turnkey cannot be reached or does not respond in time.", False)
    assert failure(turnkey()) == unreachable
    assert server.paths == [SUBMIT] * 3
    with TurnkeyServer() as gone:
        monkeypatch.setenv("TURNKEY_API_URL", gone.url)
    assert failure(turnkey()) == unreachable


def test_an_address_that_is_no_url_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("turnkey", "ftp://127.0.0.1", "http://127.0.0.1:port"):
        monkeypatch.setenv("TURNKEY_API_URL", address)
        assert failure(turnkey()) == ("TURNKEY_API_URL is not a valid URL.", True)


def test_a_proxy_of_the_environment_leads_to_turnkey(server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("TURNKEY_API_URL", "http://turnkey.invalid")
    server.plan(SUBMIT, Answer(401, {}))
    assert failure(turnkey()) == ("Turnkey refused this signer's credentials (HTTP 401).", True)
    assert server.paths == [f"http://turnkey.invalid{SUBMIT}"]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "turnkey_api_key_stamper", None)
    command = ".venv/bin/pip install -e '.[turnkey]'"
    problem = f"turnkey-api-key-stamper is not installed. Run {command} in the project's folder."
    assert failure(turnkey()) == (problem, True)


def test_no_failure_shows_a_secret(server: TurnkeyServer) -> None:
    shown = ""
    good = [(API_PRIVATE_KEY, status) for status in (200, 400, 401, 500)]
    for key, status in (*good, ("a-bad-key", 400), ("33" * 32, 400)):
        server.plan(SUBMIT, *[Answer(status, {"message": API_PRIVATE_KEY})] * 3)
        backend = turnkey(api_private_key=key)
        with everything_logged() as logged, pytest.raises(SignerError) as caught:
            backend.sign_digest(DIGEST)
        server.unplan()
        shown += all_that_shows(caught.value) + str(logged) + repr(backend)
    with everything_logged() as lines:
        turnkey().sign_digest(DIGEST)
    shown += str(lines)
    assert "not a P-256 key pair" in shown
    secrets = (API_PRIVATE_KEY, "a-bad-key", "33" * 32, server.asked[-1].headers["X-Stamp"])
    assert [secret for secret in secrets if secret in shown] == []
