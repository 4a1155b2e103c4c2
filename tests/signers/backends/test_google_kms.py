"""Google Cloud KMS: the official client against a server that checks its tokens and checksums."""

from __future__ import annotations

import base64
import hashlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from eth_keys import datatypes
from eth_keys.constants import SECPK1_N

from signers.backends import google_kms, http
from signers.backends.base import Signature, SignerError
from signers.backends.google_kms import GoogleKms
from tests.servers import free_port

pytest.importorskip("google.cloud.kms_v1", reason="google-cloud-kms is not installed")
google_crc32c = pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")

from tests.signers.backends.google_server import (  # noqa: E402  # after the skip: it needs google-crc32c
    CLIENT_EMAIL,
    NAME,
    PRIVATE_KEY_ID,
    GoogleServer,
    refusal,
    running,
)

# The first account of the mnemonic that development chains start with.
KEY = ec.derive_private_key(0xAC0974BEC39A17E36BA4A6B4D238FF944BACB478CBED5EFCAE784D7BF4F2FF80, ec.SECP256K1())
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
DIGEST = hashlib.sha256(b"a digest for tests").digest()
GET = f"GET /v1/{NAME}/publicKey"
SIGN = f"POST /v1/{NAME}:asymmetricSign"
FOREIGN_TEXT = "the text of Google"

BUSY = "Google Cloud KMS is throttling requests."
FAULT = "Google Cloud KMS is unavailable (HTTP {})."
UNREACHABLE = "Google Cloud KMS cannot be reached or does not respond in time."
CORRUPTED = "The response of Google Cloud KMS was corrupted in transit."
NOT_UNDERSTOOD = "Google Cloud KMS returned an invalid response."
REFUSED = "Google Cloud KMS refused the service account."
NOT_RSA = "service_account.private_key is not an RSA private key in PEM."


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


SERVICE_ACCOUNT_KEY = rsa.generate_private_key(65537, 1024)  # short, as each new client checks it at length
SERVICE_ACCOUNT_PEM = pem(SERVICE_ACCOUNT_KEY)


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with running(GoogleServer(KEY, SERVICE_ACCOUNT_KEY.public_key())) as server:
        monkeypatch.setenv("GOOGLE_KMS_ENDPOINT", server.url)
        yield server


def config() -> dict[str, Any]:
    return {
        "key": {"location": "europe-west3", "key_ring_id": "relayers", "key_id": "treasury", "key_version": 1},
        "service_account": {
            "project_id": "test-project",
            "private_key_id": PRIVATE_KEY_ID,
            "private_key": SERVICE_ACCOUNT_PEM,
            "client_email": CLIENT_EMAIL,
            "client_id": "111122223333",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": "http://127.0.0.1:9/never-called",
            "auth_provider_x509_cert_url": "https://www.googleapis.com/oauth2/v1/certs",
            "client_x509_cert_url": "https://www.googleapis.com/robot/v1/metadata/x509/relayer",
            "universe_domain": "googleapis.com",
        },
    }


def backend(section: str = "key", **changes: Any) -> GoogleKms:
    """A backend whose config has these changes in one section; None takes a field out."""
    whole = config()
    whole[section] = {name: value for name, value in (whole[section] | changes).items() if value is not None}
    return GoogleKms(whole)


def recovered_address(signature: Signature, digest: bytes) -> str:
    vrs = datatypes.Signature(vrs=(signature.recovery_id, signature.r, signature.s))
    address: str = vrs.recover_public_key_from_msg_hash(digest).to_checksum_address()
    return address


def error_of(signer: GoogleKms) -> tuple[str, bool]:
    with pytest.raises(SignerError) as raised:
        signer.sign_digest(DIGEST)
    return str(raised.value), raised.value.permanent


def error_of_address(signer: GoogleKms) -> tuple[str, bool]:
    with pytest.raises(SignerError) as raised:
        signer.address()
    return str(raised.value), raised.value.permanent


def test_the_address_is_that_of_the_key_in_kms(google: GoogleServer) -> None:
    assert backend().address() == ADDRESS
    assert google.requests == [GET]


def test_signatures_recover_to_the_address(google: GoogleServer) -> None:
    signer = backend()
    digests = [hashlib.sha256(bytes([n])).digest() for n in range(20)]

    signatures = [signer.sign_digest(digest) for digest in digests]

    assert [recovered_address(*pair) for pair in zip(signatures, digests, strict=True)] == [ADDRESS] * 20
    assert all(signature.s <= SECPK1_N // 2 for signature in signatures)


def test_public_key_token_and_connection_are_reused(google: GoogleServer) -> None:
    signer = backend()

    for _ in range(3):
        signer.sign_digest(DIGEST)

    assert google.requests == [SIGN, GET, SIGN, SIGN]
    assert (len(google.tokens), len(set(google.tokens)), google.connections) == (4, 1, 1)


def test_the_client_starts_no_thread_that_could_call_another_host(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    start = threading.Thread.start

    def recorded_start(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", recorded_start)

    backend().sign_digest(DIGEST)

    assert [name.partition(" ")[2] for name in started] == ["(process_request_thread)"]  # the server's own


def test_threads_share_a_signer(google: GoogleServer) -> None:
    signer = backend()

    with ThreadPoolExecutor(8) as pool:
        signatures = list(pool.map(signer.sign_digest, [DIGEST] * 40))

    assert {recovered_address(signature, DIGEST) for signature in signatures} == {ADDRESS}


@pytest.mark.parametrize("version", [1, "1"])
def test_the_version_is_a_number_or_a_string_of_digits(google: GoogleServer, version: object) -> None:
    assert backend(key_version=version).address() == ADDRESS


def test_the_version_is_1_where_none_is_given(google: GoogleServer) -> None:
    assert backend(key_version=None).address() == ADDRESS


def test_the_location_is_global_where_none_is_given(google: GoogleServer) -> None:
    assert error_of(backend(location=None)) == ("Google Cloud KMS has no such key version.", True)
    assert google.requests == [SIGN.replace("europe-west3", "global")]


def test_a_project_given_with_the_key_wins(google: GoogleServer) -> None:
    assert error_of(backend(project_id="other")) == ("Google Cloud KMS has no such key version.", True)
    assert google.requests == [SIGN.replace("test-project", "other")]


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("key", "key_ring_id"),
        ("key", "key_id"),
        ("service_account", "project_id"),
        ("service_account", "private_key_id"),
        ("service_account", "private_key"),
        ("service_account", "client_email"),
    ],
)
def test_a_field_that_is_missing_is_named(google: GoogleServer, section: str, field: str) -> None:
    message = f"{section}.{field} is missing."

    assert error_of(backend(section, **{field: None})) == (message, True)
    assert error_of(backend(section, **{field: ""})) == (message, True)
    assert google.requests == []


@pytest.mark.parametrize("section", ["key", "service_account"])
def test_a_section_that_is_missing_is_named(section: str) -> None:
    whole = config()
    del whole[section]

    assert error_of(GoogleKms(whole)) == (f"{section} is missing.", True)


@pytest.mark.parametrize("field", ["private_key_id", "private_key", "client_email", "project_id", "universe_domain"])
def test_a_field_that_is_no_string_is_named(field: str) -> None:
    signer = backend("service_account", **{field: 5})

    assert error_of(signer) == (f"service_account.{field} must be a string.", True)


@pytest.mark.parametrize("field", ["location", "key_ring_id", "key_id", "project_id"])
@pytest.mark.parametrize("value", ["a/b", "..", "a?b", "a#b", "a%2fb", "a b", "ä", "a\n"])
def test_a_name_cannot_reach_another_resource(google: GoogleServer, field: str, value: str) -> None:
    signer = backend(**{field: value})

    assert error_of(signer) == (f"key.{field} has a character that is not allowed in a name.", True)
    assert google.requests == []


@pytest.mark.parametrize("version", [0, -1, 1.0, True, "", "0", "01", "1 ", "latest", "9" * 5000, [1]])
def test_a_version_that_is_no_number_is_refused(version: object) -> None:
    assert error_of(backend(key_version=version)) == (
        "key.key_version must be an integer of at least 1.",
        True,
    )


@pytest.mark.parametrize(
    "private_key",
    [
        "not a key",
        SERVICE_ACCOUNT_PEM[:400],
        SERVICE_ACCOUNT_PEM.replace("\n", "\\n"),
        pem(ec.derive_private_key(5, ec.SECP256R1())),
        SERVICE_ACCOUNT_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
    ],
    ids=["words", "cut off", "escaped line ends", "an EC key", "a public key"],
)
def test_a_private_key_that_cannot_be_read_is_a_permanent_error(google: GoogleServer, private_key: str) -> None:
    assert error_of(backend("service_account", private_key=private_key)) == (NOT_RSA, True)
    assert google.requests == []


def test_another_universe_is_refused() -> None:
    signer = backend("service_account", universe_domain="example.com")

    assert error_of(signer) == ("service_account.universe_domain must be googleapis.com.", True)


def test_a_token_that_another_key_signed_is_refused(google: GoogleServer) -> None:
    stranger = pem(rsa.generate_private_key(65537, 1024))

    assert error_of(backend("service_account", private_key=stranger)) == (REFUSED, True)
    assert set(google.refusals) == {"the token is not signed by the service account"}


@pytest.mark.parametrize(
    ("field", "wrong"), [("client_email", "iss, sub"), ("private_key_id", "header")], ids=["client_email", "key id"]
)
def test_a_token_of_somebody_else_is_refused(google: GoogleServer, field: str, wrong: str) -> None:
    assert error_of(backend("service_account", **{field: "somebody-else"})) == (REFUSED, True)
    assert set(google.refusals) == {f"wrong in the token: {wrong}"}


def test_a_token_that_is_expired_for_google_is_a_permanent_error(google: GoogleServer) -> None:
    google.clock = lambda: time.time() + 7200

    assert error_of(backend()) == (REFUSED, True)
    assert set(google.refusals) == {"wrong in the token: exp"}


def test_a_token_that_grew_old_is_made_anew(google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = backend()
    an_hour_ago = time.time() - 3600
    google.clock = lambda: an_hour_ago
    with monkeypatch.context() as patch:
        patch.setattr(google_kms, "time", SimpleNamespace(time=google.clock))
        signer.address()
    google.clock = time.time

    signer.sign_digest(DIGEST)

    assert (len(set(google.tokens)), google.refusals) == (2, [])


def test_a_token_that_is_refused_once_is_made_anew(google: GoogleServer) -> None:
    google.first_answers = [refusal(401, "UNAUTHENTICATED")]

    assert backend().address() == ADDRESS
    assert google.requests == [GET, GET]


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (502, "UNKNOWN"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
    ],
)
def test_what_may_pass_is_tried_again(google: GoogleServer, pauses: list[float], status: int, name: str) -> None:
    google.first_answers = [refusal(status, name)] * 2

    signature = backend().sign_digest(DIGEST)

    assert recovered_address(signature, DIGEST) == ADDRESS
    assert google.requests == [SIGN, SIGN, SIGN, GET]
    assert pauses == [0.2, 0.6]


def test_the_pause_that_google_asks_for_is_kept(google: GoogleServer, pauses: list[float]) -> None:
    google.first_answers = [refusal(429, "RESOURCE_EXHAUSTED", Retry_After="2")]

    assert backend().address() == ADDRESS
    assert pauses == [2.0]


@pytest.mark.parametrize(
    ("status", "name", "error"),
    [(429, "RESOURCE_EXHAUSTED", (BUSY, False)), (503, "UNAVAILABLE", (FAULT.format(503), False))],
)
def test_after_three_attempts_it_is_a_passing_error(
    google: GoogleServer, pauses: list[float], status: int, name: str, error: tuple[str, bool]
) -> None:
    google.first_answers = [refusal(status, name)] * 4

    assert error_of(backend()) == error
    assert (google.requests, pauses) == ([SIGN] * 3, [0.2, 0.6])


@pytest.mark.parametrize(
    ("status", "name", "message"),
    [
        (
            400,
            "FAILED_PRECONDITION",
            "Google Cloud KMS refused the request: the key version is disabled or destroyed, or is not for signing.",
        ),
        (403, "PERMISSION_DENIED", "Google Cloud KMS does not allow this service account to use the key."),
        (404, "NOT_FOUND", "Google Cloud KMS has no such key version."),
        (409, "ABORTED", "Google Cloud KMS refused the request (HTTP 409). Check the config."),
        (418, "TEAPOT", "Google Cloud KMS refused the request (HTTP 418). Check the config."),
    ],
)
def test_a_refusal_is_a_permanent_error_and_is_not_repeated(
    google: GoogleServer, status: int, name: str, message: str
) -> None:
    google.first_answers = [refusal(status, name)]

    assert error_of(backend()) == (message, True)
    assert google.requests == [SIGN]


@pytest.mark.parametrize("answer", [b"", b"<html>It works!</html>", b"null", b"5", b"\xff\xfe", b'{"signature": 5}'])
def test_an_answer_that_cannot_be_read_is_a_passing_error(google: GoogleServer, answer: bytes) -> None:
    google.first_answers = [(200, answer, {})]

    assert error_of(backend()) == (NOT_UNDERSTOOD, False)


def test_a_fault_that_is_told_in_html_is_a_passing_error(google: GoogleServer, pauses: list[float]) -> None:
    google.first_answers = [(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"})] * 3

    assert error_of(backend()) == (FAULT.format(502), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"signatureCrc32c": "1"},
        {"signatureCrc32c": None},
        {"verifiedDigestCrc32c": False},
        {"verifiedDigestCrc32c": None},
        {"signature": None},
        {"name": NAME.replace("treasury", "other")},
        {"name": None},
    ],
)
def test_a_signature_that_was_changed_on_its_way_is_refused(google: GoogleServer, changes: dict[str, Any]) -> None:
    signer = backend()
    signer.address()
    google.changes = changes

    assert error_of(signer) == (CORRUPTED, False)


@pytest.mark.parametrize(
    "changes",
    [{"pemCrc32c": "1"}, {"pemCrc32c": None}, {"pem": None}, {"name": NAME.replace("/1", "/2")}, {"name": None}],
)
def test_a_public_key_that_was_changed_on_its_way_is_refused(google: GoogleServer, changes: dict[str, Any]) -> None:
    google.changes = changes

    assert error_of_address(backend()) == (CORRUPTED, False)


def test_a_signature_that_is_not_der_is_a_passing_error(google: GoogleServer) -> None:
    signature = bytes(64)
    google.changes = {
        "signature": base64.b64encode(signature).decode(),
        "signatureCrc32c": str(google_crc32c.value(signature)),
    }

    assert error_of(backend()) == (NOT_UNDERSTOOD, False)


P256_PEM = (
    ec.derive_private_key(5, ec.SECP256R1()).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
)


@pytest.mark.parametrize("public_key", [b"not a key", P256_PEM], ids=["words", "another curve"])
def test_a_public_key_that_is_not_secp256k1_is_a_passing_error(google: GoogleServer, public_key: bytes) -> None:
    google.changes = {"pem": public_key.decode(), "pemCrc32c": str(google_crc32c.value(public_key))}

    assert error_of_address(backend()) == (NOT_UNDERSTOOD, False)


@pytest.mark.parametrize("algorithm", [12, 40, 0, None], ids=["P-256", "Ed25519", "unspecified", "missing"])
def test_a_key_of_another_algorithm_is_refused(google: GoogleServer, algorithm: int | None) -> None:
    google.changes = {"algorithm": algorithm}

    assert error_of_address(backend()) == (
        "The algorithm of the key in Google Cloud KMS is not EC_SIGN_SECP256K1_SHA256.",
        True,
    )


def test_a_server_that_is_not_there_is_a_passing_error(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("GOOGLE_KMS_ENDPOINT", f"http://127.0.0.1:{free_port()}")

    assert error_of(backend()) == (UNREACHABLE, False)
    assert pauses == [0.2, 0.6]


def test_a_server_that_does_not_answer_is_given_up(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr(http, "ATTEMPT_SECONDS", 0.1)
    google.answer_again.clear()

    assert error_of(backend()) == (UNREACHABLE, False)
    assert pauses == [0.2, 0.6]


def test_nothing_secret_is_in_an_error_or_a_log(google: GoogleServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    google.first_answers = [refusal(403, "PERMISSION_DENIED", FOREIGN_TEXT)]
    signer = backend()

    with pytest.raises(SignerError) as raised:
        signer.sign_digest(DIGEST)
    signer.address()

    told = "".join(traceback.format_exception(raised.value)) + repr(signer) + caplog.text
    secrets = [FOREIGN_TEXT, SERVICE_ACCOUNT_PEM.splitlines()[3], google.tokens[0]]
    assert [secret for secret in secrets if secret in told] == []


@pytest.mark.parametrize("module", ["google.cloud.kms_v1", "google_crc32c"])
def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)

    assert error_of(backend()) == (
        "google-cloud-kms is not installed. Run .venv/bin/pip install -e '.[google]' in the project's folder.",
        True,
    )
