"""An account at Coinbase CDP, against a stand-in for its API."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from signers.backends.base import Signature, SignerError
from signers.backends.coinbase_cdp import INTRODUCTION, CoinbaseCdp
from tests.signers.backends.cdp_server import CdpServer
from tests.signers.backends.vault_server import Answer, all_that_shows, everything_logged, failure

DIGEST = bytes(range(32))
ADDRESS = CdpServer.address
SIGN = f"/platform/v2/evm/accounts/{ADDRESS}/sign"
API_KEY_SECRET = base64.b64encode(
    CdpServer.api_key.private_bytes_raw() + CdpServer.api_key.public_key().public_bytes_raw()
).decode()
RSA_KEY = rsa.generate_private_key(65537, 2048)
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


def expected(digest: bytes) -> Signature:
    signature = CdpServer.key.sign_msg_hash(digest)
    return Signature(signature.r, signature.s, signature.v)


def test_a_digest_is_signed_by_the_account_at_cdp(server: CdpServer) -> None:
    assert cdp().sign_digest(DIGEST) == expected(DIGEST)
    # The hash is all that is sent.
    hashes = [{"hash": f"0x{digest.hex()}"} for digest in (DIGEST, INTRODUCTION)]
    assert [json.loads(asked.body) for asked in server.asked] == hashes
    for address in (ADDRESS.lower(), "0x" + ADDRESS[2:].upper()):
        assert cdp(account_address=address).address() == ADDRESS


def test_an_api_key_may_be_a_p256_key_in_pem(server: CdpServer) -> None:
    server.api_public_key = EC_KEY.public_key()
    for key in (pem(EC_KEY), pem(EC_KEY).replace("\n", "\\n")):
        assert cdp(api_key_secret=key).sign_digest(DIGEST) == expected(DIGEST)


def test_the_public_key_is_asked_for_once_and_all_share_a_connection(server: CdpServer) -> None:
    backend = cdp()
    for number in range(1, 6):
        backend.sign_digest(bytes([number]) * 32)
    assert server.paths == [SIGN] * 6
    assert server.connections == 1
    assert len({asked.headers["X-Idempotency-Key"] for asked in server.asked}) == 6


def test_threads_get_the_signature_of_their_own_digest(server: CdpServer) -> None:
    backend = cdp()
    digests = [bytes([number]) * 32 for number in range(1, 17)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(backend.sign_digest, digests)) == [expected(digest) for digest in digests]


def test_an_account_with_another_address_is_refused(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = cdp()
    backend.address()
    signature = CdpServer.key.sign_msg_hash(INTRODUCTION)
    server.plan(SIGN, Answer(200, {"signature": "0x" + signature.to_bytes().hex()}))
    assert failure(backend) == ("The returned signature was not made with this signer's key.", True)
    problem = "Coinbase CDP did not find this signer's key (HTTP 404)."
    assert failure(cdp(account_address="0x" + "11" * 20)) == (problem, True)
    another = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
    monkeypatch.setattr(server, "address", another)
    problem = "The signature of Coinbase CDP was not made by account_address."
    assert failure(cdp(account_address=another)) == (problem, True)


def test_a_config_that_cannot_be_used_is_refused_and_not_sent(server: CdpServer) -> None:
    faults = {
        "account_address": "account_address is not an EVM address.",
        "api_key_secret": "api_key_secret is neither an Ed25519 key in base64 nor a P-256 key in PEM.",
        "wallet_secret": "wallet_secret is not a P-256 key in DER and base64.",
    }
    long, short = (base64.b64encode(bytes(size)).decode() for size in (64, 32))
    k1, p384 = (ec.derive_private_key(7, curve) for curve in (ec.SECP256K1(), ec.SECP384R1()))
    values = {
        "account_address": ["", "0x", ADDRESS[2:], ADDRESS + "0", "0x" + "g" * 40, ADDRESS + "/../x", "../" * 14],
        "api_key_secret": ["", "x", short, "-----BEGIN EC PRIVATE KEY-----", pem(p384), pem(k1), pem(RSA_KEY)],
        "wallet_secret": ["", "x", long, der(k1), pem(EC_KEY)],
    }
    for field, fault in faults.items():
        for value in values[field]:
            assert failure(cdp(**{field: value})) == (fault, True)
    assert server.paths == []


def test_credentials_that_cdp_does_not_know_are_refused_for_good(
    server: CdpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ("Coinbase CDP refused this signer's credentials (HTTP 401).", True)
    for changes in (
        *({"api_key_id": "another"}, {"wallet_secret": der(EC_KEY)}),
        *({"api_key_secret": key} for key in (base64.b64encode(bytes(64)).decode(), pem(EC_KEY))),
    ):
        assert failure(cdp(**changes)) == refused
    assert server.paths == [SIGN] * 4
    # A JWT from a wrong clock.
    monkeypatch.setattr("signers.backends.coinbase_cdp.now", lambda: time.time() - 90)
    assert failure(cdp()) == refused


def test_tries_of_one_signature_share_a_key_and_have_new_jwts(server: CdpServer, pauses: list[float]) -> None:
    backend = cdp()
    backend.address()
    server.plan(SIGN, Answer(500, {"errorType": "internal_server_error"}), Answer(429, b""))
    assert backend.sign_digest(DIGEST) == expected(DIGEST)
    tries = server.asked[1:]
    names = ("X-Idempotency-Key", "Authorization", "X-Wallet-Auth")
    assert [len({asked.headers[name] for asked in tries}) for name in names] == [1, 3, 3]
    assert pauses == [0.2, 0.6]


@pytest.mark.parametrize(
    ("status", "problem", "permanent", "tries"),
    [
        (402, "Coinbase CDP refused the request (HTTP 402). Check the config.", True, 1),
        (403, "Coinbase CDP refused this signer's credentials (HTTP 403).", True, 1),
        (429, "Coinbase CDP is throttling requests.", False, 3),
        (503, "Coinbase CDP is unavailable (HTTP 503).", False, 3),
    ],
)
def test_a_fault_that_stays_is_told(server: CdpServer, status: int, problem: str, permanent: bool, tries: int) -> None:
    server.plan(SIGN, *[Answer(status, {"errorType": "some_kind"})] * 3)
    assert failure(cdp()) == (problem, permanent)
    assert server.paths == [SIGN] * tries


def test_an_answer_of_another_shape_is_not_understood(server: CdpServer) -> None:
    signatures = ({"signature": value} for value in (None, "0x", "0x" + "g" * 130, 7))
    for content in (b"<html>", b"\xff", [], {}, *signatures):
        server.plan(SIGN, Answer(200, content))
        assert failure(cdp()) == ("Coinbase CDP returned an invalid response.", False)
    server.plan(SIGN, Answer(200, {"signature": "0x" + "0" * 130}))
    with pytest.raises(SignerError, match="was not made by account_address") as caught:
        cdp().address()
    assert caught.value.permanent


def test_a_missing_library_is_named(server: CdpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    problem = "PyJWT is not installed. Run .venv/bin/pip install -e '.[coinbase]' in the project's folder."
    assert failure(cdp()) == (problem, True)


def test_no_failure_shows_a_secret(server: CdpServer) -> None:
    bad, shown = "a-key-in-the-wrong-form", ""
    secrets = [API_KEY_SECRET, WALLET_SECRET]
    for status, changes in (
        *((status, {}) for status in (200, 400, 401, 500)),
        *((200, {field: bad}) for field in ("api_key_secret", "wallet_secret")),
    ):
        server.plan(SIGN, *[Answer(status, {"errorMessage": secrets, "signature": "0x"})] * 3)
        backend = cdp(**changes)
        with everything_logged() as logged, pytest.raises(SignerError) as caught:
            backend.sign_digest(DIGEST)
        server.unplan()
        shown += all_that_shows(caught.value) + str(logged) + repr(backend)
    with everything_logged() as lines:
        cdp().sign_digest(DIGEST)
    shown += str(lines)
    sent = [asked.headers[name] for asked in server.asked[-2:] for name in ("Authorization", "X-Wallet-Auth")]
    assert "Coinbase CDP" in shown
    assert "wallet_secret" in shown
    assert [secret for secret in (*secrets, *sent, bad) if secret in shown] == []
