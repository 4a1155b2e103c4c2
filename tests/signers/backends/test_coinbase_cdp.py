"""An account at Coinbase CDP, against a stand-in for its API."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from signers.backends.base import Signature, SignerError
from signers.backends.coinbase_cdp import INTRODUCTION, CoinbaseCdp
from tests.signers.backends.cdp_server import CdpServer
from tests.signers.backends.vault_server import Answer, all_that_shows, everything_logged

DIGEST = bytes(range(32))
ADDRESS = CdpServer.address
SIGN = f"/platform/v2/evm/accounts/{ADDRESS}/sign"
API_KEY_SECRET = base64.b64encode(
    CdpServer.api_key.private_bytes_raw() + CdpServer.api_key.public_key().public_bytes_raw()
).decode()
EC_KEY = ec.derive_private_key(0xBEEF, ec.SECP256R1())


def der(key: ec.EllipticCurvePrivateKey) -> str:
    return base64.b64encode(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())).decode()


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


WALLET_SECRET = der(CdpServer.wallet_key)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CdpServer]:
    with CdpServer() as server:
        monkeypatch.setenv("CDP_API_URL", f"{server.url}/platform")
        yield server


def cdp(**changes: str) -> CoinbaseCdp:
    config = {
        "account_address": ADDRESS,
        "api_key_id": CdpServer.api_key_id,
        "api_key_secret": API_KEY_SECRET,
        "wallet_secret": WALLET_SECRET,
    }
    return CoinbaseCdp({**config, **changes})


def failure(backend: CoinbaseCdp) -> tuple[str, bool]:
    with pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    return str(caught.value), caught.value.permanent


def expected(digest: bytes) -> Signature:
    signature = CdpServer.key.sign_msg_hash(digest)
    return Signature(signature.r, signature.s, signature.v)


def test_a_digest_is_signed_by_the_account_at_cdp(server: CdpServer) -> None:
    assert cdp().sign_digest(DIGEST) == expected(DIGEST)


def test_the_hash_is_all_that_is_sent(server: CdpServer) -> None:
    cdp().sign_digest(DIGEST)
    assert [json.loads(asked.body) for asked in server.asked] == [
        {"hash": f"0x{DIGEST.hex()}"},
        {"hash": f"0x{INTRODUCTION.hex()}"},
    ]


def test_an_api_key_may_be_a_p256_key_in_pem(server: CdpServer) -> None:
    server.api_public_key = EC_KEY.public_key()
    assert cdp(api_key_secret=pem(EC_KEY)).sign_digest(DIGEST) == expected(DIGEST)


def test_line_ends_of_a_pem_may_be_written_out(server: CdpServer) -> None:
    server.api_public_key = EC_KEY.public_key()
    assert cdp(api_key_secret=pem(EC_KEY).replace("\n", "\\n")).address() == ADDRESS


@pytest.mark.parametrize("address", [ADDRESS, ADDRESS.lower(), "0x" + ADDRESS[2:].upper()])
def test_the_address_is_compared_without_regard_to_case(server: CdpServer, address: str) -> None:
    assert cdp(account_address=address).address() == ADDRESS


def test_the_public_key_is_asked_for_once_and_all_share_a_connection(server: CdpServer) -> None:
    backend = cdp()
    for number in range(1, 6):
        backend.sign_digest(bytes([number]) * 32)
    assert server.paths == [SIGN] * 6
    assert server.connections == 1


def test_threads_get_the_signature_of_their_own_digest(server: CdpServer) -> None:
    backend = cdp()
    digests = [bytes([number]) * 32 for number in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(backend.sign_digest, digests)) == [expected(digest) for digest in digests]


def test_an_account_with_another_address_is_refused(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    another = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    monkeypatch.setattr(server, "address", another)
    problem = "The signature of Coinbase CDP was not made by account_address."
    assert failure(cdp(account_address=another)) == (problem, True)


def test_a_signature_by_another_key_is_refused(server: CdpServer) -> None:
    backend = cdp()
    backend.address()
    signature = CdpServer.key.sign_msg_hash(INTRODUCTION)
    server.plan(SIGN, Answer(200, {"signature": "0x" + signature.to_bytes().hex()}))
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)


@pytest.mark.parametrize(
    "address", ["", "0x", ADDRESS[2:], ADDRESS + "0", "0x" + "g" * 40, ADDRESS + "/../x", "../" * 14]
)
def test_another_text_is_no_address(server: CdpServer, address: str) -> None:
    assert failure(cdp(account_address=address)) == ("account_address is not an EVM address.", True)
    assert server.paths == []


def test_an_account_that_cdp_does_not_have_is_a_missing_key(server: CdpServer) -> None:
    problem = "Coinbase CDP did not find this signer's key (HTTP 404)."
    assert failure(cdp(account_address="0x" + "11" * 20)) == (problem, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"api_key_id": "another"},
        {"api_key_secret": base64.b64encode(bytes(64)).decode()},
        {"api_key_secret": pem(EC_KEY)},
        {"wallet_secret": der(EC_KEY)},
    ],
)
def test_credentials_that_cdp_does_not_know_are_refused_for_good(server: CdpServer, changes: dict[str, str]) -> None:
    assert failure(cdp(**changes)) == ("Coinbase CDP refused this signer's credentials (HTTP 401).", True)
    assert server.paths == [SIGN]


def test_a_jwt_from_a_wrong_clock_is_refused(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.backends.coinbase_cdp.now", lambda: time.time() - 90)
    assert failure(cdp()) == ("Coinbase CDP refused this signer's credentials (HTTP 401).", True)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "x",
        base64.b64encode(bytes(32)).decode(),
        "-----BEGIN EC PRIVATE KEY-----",
        pem(ec.derive_private_key(7, ec.SECP384R1())),
        pem(ec.derive_private_key(7, ec.SECP256K1())),
        pem(rsa.generate_private_key(65537, 2048)),
    ],
)
def test_another_text_is_no_api_key(server: CdpServer, secret: str) -> None:
    problem = "api_key_secret is neither an Ed25519 key in base64 nor a P-256 key in PEM."
    assert failure(cdp(api_key_secret=secret)) == (problem, True)


@pytest.mark.parametrize(
    "secret",
    ["", "x", base64.b64encode(bytes(64)).decode(), der(ec.derive_private_key(7, ec.SECP256K1())), pem(EC_KEY)],
)
def test_another_text_is_no_wallet_secret(server: CdpServer, secret: str) -> None:
    problem = "wallet_secret is not a P-256 key in DER and base64."
    assert failure(cdp(wallet_secret=secret)) == (problem, True)


def test_tries_of_one_signature_share_a_key_and_have_new_jwts(server: CdpServer, pauses: list[float]) -> None:
    backend = cdp()
    backend.address()
    server.plan(SIGN, Answer(500, {"errorType": "internal_server_error"}), Answer(429, b""))
    assert backend.sign_digest(DIGEST) == expected(DIGEST)
    first, second, third = server.asked[1:]
    assert (
        first.headers["X-Idempotency-Key"] == second.headers["X-Idempotency-Key"] == third.headers["X-Idempotency-Key"]
    )
    assert len({asked.headers["Authorization"] for asked in (first, second, third)}) == 3
    assert len({asked.headers["X-Wallet-Auth"] for asked in (first, second, third)}) == 3
    assert pauses == [0.2, 0.6]


def test_each_signature_has_an_idempotency_key_of_its_own(server: CdpServer) -> None:
    backend = cdp()
    backend.sign_digest(DIGEST)
    backend.sign_digest(DIGEST)
    assert len({asked.headers["X-Idempotency-Key"] for asked in server.asked}) == 3


@pytest.mark.parametrize(
    ("status", "problem", "permanent", "tries"),
    [
        (400, "Coinbase CDP refused the request (HTTP 400). Check the config.", True, 1),
        (402, "Coinbase CDP refused the request (HTTP 402). Check the config.", True, 1),
        (403, "Coinbase CDP refused this signer's credentials (HTTP 403).", True, 1),
        (422, "Coinbase CDP refused the request (HTTP 422). Check the config.", True, 1),
        (429, "Coinbase CDP is throttling requests.", False, 3),
        (500, "Coinbase CDP is unavailable (HTTP 500).", False, 3),
        (502, "Coinbase CDP is unavailable (HTTP 502).", False, 3),
        (503, "Coinbase CDP is unavailable (HTTP 503).", False, 3),
    ],
)
def test_a_fault_that_stays_is_told(server: CdpServer, status: int, problem: str, permanent: bool, tries: int) -> None:
    server.plan(SIGN, *[Answer(status, {"errorType": "some_kind"})] * 3)
    assert failure(cdp()) == (problem, permanent)
    assert server.paths == [SIGN] * tries


def test_the_pause_that_cdp_asks_for_is_kept(server: CdpServer, pauses: list[float]) -> None:
    server.plan(SIGN, Answer(429, {}, {"Retry-After": "3"}))
    cdp().address()
    assert pauses == [3.0]


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"\xff",
        [],
        {},
        {"signature": None},
        {"signature": "0x"},
        {"signature": "0x" + "g" * 130},
        {"signature": 7},
    ],
)
def test_an_answer_of_another_shape_is_not_understood(server: CdpServer, content: Any) -> None:
    server.plan(SIGN, Answer(200, content))
    assert failure(cdp()) == ("Coinbase CDP returned an invalid response.", False)


def test_numbers_that_are_no_signature_are_refused(server: CdpServer) -> None:
    server.plan(SIGN, Answer(200, {"signature": "0x" + "0" * 130}))
    with pytest.raises(SignerError, match="was not made by account_address") as caught:
        cdp().address()
    assert caught.value.permanent


def test_a_server_that_does_not_answer_is_not_waited_for(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signers.backends.http.ATTEMPT_SECONDS", 0.5)
    server.plan(SIGN, *[Answer(200, {}, hang=True)] * 3)
    assert failure(cdp()) == ("Coinbase CDP cannot be reached or does not respond in time.", False)
    assert server.paths == [SIGN] * 3


def test_a_missing_library_is_named(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    problem = "PyJWT is not installed. Run .venv/bin/pip install -e '.[coinbase]' in the project's folder."
    assert failure(cdp()) == (problem, True)


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_no_failure_shows_a_secret(server: CdpServer, status: int) -> None:
    secrets = [API_KEY_SECRET, WALLET_SECRET]
    server.plan(SIGN, *[Answer(status, {"errorMessage": secrets, "signature": "0x"})] * 3)
    backend = cdp()
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        backend.sign_digest(DIGEST)
    shown = all_that_shows(caught.value) + str(logged) + repr(backend)
    assert "Coinbase CDP" in shown
    assert [secret for secret in secrets if secret in shown] == []


@pytest.mark.parametrize("field", ["api_key_secret", "wallet_secret"])
def test_a_bad_secret_is_not_shown(server: CdpServer, field: str) -> None:
    with everything_logged() as logged, pytest.raises(SignerError) as caught:
        cdp(**{field: "a-key-in-the-wrong-form"}).sign_digest(DIGEST)
    shown = all_that_shows(caught.value) + str(logged)
    assert field in shown
    assert "a-key-in-the-wrong-form" not in shown


def test_a_signature_logs_no_secret(server: CdpServer) -> None:
    with everything_logged() as lines:
        cdp().sign_digest(DIGEST)
    logged = str(lines)
    sent = [asked.headers[name] for asked in server.asked for name in ("Authorization", "X-Wallet-Auth")]
    assert [secret for secret in (API_KEY_SECRET, WALLET_SECRET, *sent) if secret in logged] == []
