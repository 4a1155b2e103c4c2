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
from tests.signers.backends.vault_server import Answer, all_that_shows, everything_logged
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


def failure(backend: Turnkey) -> tuple[str, bool]:
    with pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    return str(caught.value), caught.value.permanent


def expected(digest: bytes) -> Signature:
    signature = TurnkeyServer.key.sign_msg_hash(digest)
    return Signature(signature.r, signature.s, signature.v)


def completed(result: Any) -> dict[str, Any]:
    return {"activity": {"id": "1", "status": "ACTIVITY_STATUS_COMPLETED", "result": result}}


def test_a_digest_is_signed_by_the_key_at_turnkey(server: TurnkeyServer) -> None:
    backend = turnkey()
    assert backend.address() == ADDRESS
    assert backend.sign_digest(DIGEST) == expected(DIGEST)
    assert server.paths == [SUBMIT]


def test_a_request_continues_the_trace_that_it_is_for(server: TurnkeyServer) -> None:
    with tracing.following(TRACEPARENT):
        turnkey().sign_digest(DIGEST)
    assert [continues(asked.headers["traceparent"]) for asked in server.asked] == [True]


@pytest.mark.parametrize(
    "public_key",
    [
        PUBLIC_KEY.to_compressed_bytes().hex(),
        "0x" + PUBLIC_KEY.to_compressed_bytes().hex(),
        "04" + PUBLIC_KEY.to_bytes().hex(),
        "0x04" + PUBLIC_KEY.to_bytes().hex().upper(),
    ],
)
def test_the_public_key_is_compressed_or_not(public_key: str) -> None:
    assert turnkey(public_key=public_key).address() == ADDRESS


@pytest.mark.parametrize("public_key", ["x", "0x", PUBLIC_KEY.to_bytes().hex(), "02" + "ff" * 32, "04" + "11" * 64])
def test_another_text_is_no_public_key(public_key: str) -> None:
    with pytest.raises(SignerError, match=r"^public_key is not a secp256k1 public key in hex\.$") as caught:
        turnkey(public_key=public_key).address()
    assert caught.value.permanent


def test_many_signatures_share_a_connection(server: TurnkeyServer) -> None:
    backend = turnkey()
    for number in range(5):
        backend.sign_digest(bytes([number]) * 32)
    assert server.paths == [SUBMIT] * 5
    assert server.connections == 1


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


@pytest.mark.parametrize("states", [[FAILED], [REJECTED], [PENDING, REJECTED], ["ACTIVITY_STATUS_OF_TOMORROW"]])
def test_an_activity_that_ends_otherwise_has_no_signature(server: TurnkeyServer, states: list[str]) -> None:
    server.states = states
    assert failure(turnkey()) == ("Turnkey failed or rejected the signature.", True)


def test_a_request_that_is_made_again_is_the_same_activity(server: TurnkeyServer) -> None:
    server.plan(SUBMIT, Answer(502, b"<html>"))
    backend = turnkey()
    backend.sign_digest(DIGEST)
    first, second = server.asked
    assert first.body == second.body
    assert len(server.activities) == 1


def test_a_new_signature_is_a_new_activity_with_a_timestamp_of_its_own(
    server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = turnkey()
    backend.sign_digest(DIGEST)
    first = int(json.loads(server.asked[0].body)["timestampMs"])
    monkeypatch.setattr("signers.backends.turnkey.time_ns", lambda: (first + 2) * 1_000_000)
    backend.sign_digest(DIGEST)
    assert len(server.activities) == 2
    assert json.loads(server.asked[1].body)["timestampMs"] == str(first + 2)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"organization_id": "another"}, "Turnkey refused this signer's credentials (HTTP 403)."),
        ({"private_key_id": "another"}, "Turnkey did not find this signer's key (HTTP 404)."),
        (
            {
                "api_private_key": "33" * 32,
                "api_public_key": "03ff0d11aa35ec16f47ebfefe3c5a9b9ec3b1a5d3c9b9cb7ca7f9fa9e2c1c0a1b2",
            },
            "api_private_key and api_public_key are not a P-256 key pair in hex.",
        ),
        ({"api_private_key": "x"}, "api_private_key and api_public_key are not a P-256 key pair in hex."),
        ({"api_private_key": "00"}, "api_private_key and api_public_key are not a P-256 key pair in hex."),
        ({"api_private_key": "ff" * 32}, "api_private_key and api_public_key are not a P-256 key pair in hex."),
    ],
)
def test_a_wrong_configuration_is_refused_for_good(
    server: TurnkeyServer, changes: dict[str, str], problem: str
) -> None:
    assert failure(turnkey(**changes)) == (problem, True)


def test_a_stamp_by_an_api_key_that_turnkey_does_not_know_is_refused(
    server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        TurnkeyServer, "api_public_key", "02217e617f0b6443928278f96999e69a23a4f2c152bdf6d6cdf66e5b80282d4ed0"
    )
    known_to_us = "037aa5c20ce88121e623c8f3e1dfb8fe1ea7d382ba8fb81512ade9732bbe072f1f"
    assert failure(turnkey(api_public_key=known_to_us)) == (
        "Turnkey refused this signer's credentials (HTTP 401).",
        True,
    )


def test_an_old_timestamp_is_refused(server: TurnkeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.backends.turnkey.time_ns", lambda: 1_700_000_000_000_000_000)
    assert failure(turnkey()) == ("Turnkey refused the request (HTTP 400). Check the config.", True)


def test_a_signature_by_another_key_is_refused(server: TurnkeyServer) -> None:
    generator = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    problem = "The returned signature was not made with this signer's key."
    assert failure(turnkey(public_key=generator)) == (problem, True)


def test_a_fault_that_passes_is_not_seen(server: TurnkeyServer, pauses: list[float]) -> None:
    server.plan(SUBMIT, Answer(429, {"code": 8}), Answer(503, b""))
    assert turnkey().sign_digest(DIGEST) == expected(DIGEST)
    assert pauses == [0.2, 0.6]


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


@pytest.mark.parametrize(("asked_for", "pause"), [("0", 0.2), ("2", 2.0), ("5", 5.0), ("soon", 0.2)])
def test_the_pause_that_turnkey_asks_for_is_kept(
    server: TurnkeyServer, pauses: list[float], asked_for: str, pause: float
) -> None:
    server.plan(SUBMIT, Answer(429, {}, {"Retry-After": asked_for}))
    turnkey().sign_digest(DIGEST)
    assert pauses == [pause]


def test_a_pause_that_is_too_long_is_not_waited_for(server: TurnkeyServer, pauses: list[float]) -> None:
    server.plan(SUBMIT, Answer(429, {}, {"Retry-After": "6"}))
    assert failure(turnkey()) == ("Turnkey is throttling requests.", False)
    assert (server.paths, pauses) == ([SUBMIT], [])


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


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"\xff",
        b"",
        [],
        {},
        {"activity": None},
        {"activity": {"id": "1"}},
        {"activity": {"id": "1", "status": ["ACTIVITY_STATUS_COMPLETED"]}},
        {"activity": {"status": "ACTIVITY_STATUS_PENDING"}},
        completed(None),
        completed([]),
        completed({}),
        completed({"signRawPayloadResult": {"r": "1"}}),
        completed({"signRawPayloadResult": {"r": "z", "s": "1"}}),
        completed({"signRawPayloadResult": {"r": 1, "s": 1}}),
    ],
)
def test_an_answer_of_another_shape_is_not_understood(server: TurnkeyServer, content: Any) -> None:
    server.plan(SUBMIT, Answer(200, content))
    assert failure(turnkey()) == ("Turnkey returned an invalid response.", False)


@pytest.mark.parametrize(("r", "s"), [("0", "0"), ("-1", "-1"), ("f" * 64, "1"), ("f" * 200, "f" * 200)])
def test_numbers_that_are_no_signature_are_refused(server: TurnkeyServer, r: str, s: str) -> None:
    result = {"signRawPayloadResult": {"r": r, "s": s, "v": "00"}}
    server.plan(SUBMIT, Answer(200, completed(result)))
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
    assert failure(turnkey()) == ("Turnkey cannot be reached or does not respond in time.", False)
    assert server.paths == [SUBMIT] * 3


def test_a_server_that_is_not_there_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    with TurnkeyServer() as gone:
        monkeypatch.setenv("TURNKEY_API_URL", gone.url)
    assert failure(turnkey()) == ("Turnkey cannot be reached or does not respond in time.", False)


@pytest.mark.parametrize("address", ["turnkey", "ftp://127.0.0.1", "http://127.0.0.1:port"])
def test_an_address_that_is_no_url_is_said_so(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
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


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_no_failure_shows_a_secret(server: TurnkeyServer, status: int) -> None:
    server.plan(SUBMIT, *[Answer(status, {"message": API_PRIVATE_KEY})] * 3)
    backend = turnkey()
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    shown = all_that_shows(caught.value) + str(logged) + repr(backend)
    assert "Turnkey" in shown
    assert API_PRIVATE_KEY not in shown


@pytest.mark.parametrize("key", ["a-key-in-the-wrong-form", "33" * 32])
def test_a_bad_api_key_is_not_shown(key: str) -> None:
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        turnkey(api_private_key=key).sign_digest(DIGEST)
    shown = all_that_shows(caught.value) + str(logged)
    assert "not a P-256 key pair" in shown
    assert key not in shown


def test_a_signature_logs_no_secret(server: TurnkeyServer) -> None:
    with everything_logged() as lines:
        turnkey().sign_digest(DIGEST)
    logged = str(lines)
    assert API_PRIVATE_KEY not in logged
    assert server.asked[0].headers["X-Stamp"] not in logged
