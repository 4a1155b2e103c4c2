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
from eth_keys.constants import SECPK1_N

from signers.backends import google_kms, http
from signers.backends.base import SignerError
from signers.backends.google_kms import GoogleKms
from tests.servers import free_port
from tests.signers.backends.vault_server import Answer, failure, recovered_address

pytest.importorskip("google.cloud.kms_v1", reason="google-cloud-kms is not installed")
google_crc32c = pytest.importorskip("google_crc32c", reason="google-crc32c is not installed")

from tests.signers.backends.google_server import (  # noqa: E402  # after the skip: it needs google-crc32c
    CLIENT_EMAIL,
    NAME,
    PRIVATE_KEY_ID,
    GoogleServer,
    refusal,
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
    with GoogleServer(KEY, SERVICE_ACCOUNT_KEY.public_key()) as server:
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


def test_digests_are_signed_by_the_key_in_kms_with_one_token_and_connection(google: GoogleServer) -> None:
    signer = backend()
    digests = [hashlib.sha256(bytes([n])).digest() for n in range(10)]
    signatures = [signer.sign_digest(digest) for digest in digests]
    assert signer.address() == ADDRESS
    assert [recovered_address(*pair) for pair in zip(signatures, digests, strict=True)] == [ADDRESS] * 10
    assert all(signature.s <= SECPK1_N // 2 for signature in signatures)
    assert google.requests == [SIGN, GET, *[SIGN] * 9]
    assert (len(google.tokens), len(set(google.tokens)), google.connections) == (11, 1, 1)


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


def test_the_name_of_the_key_version_has_defaults(google: GoogleServer) -> None:
    for version in (1, "1", None):
        assert backend(key_version=version).address() == ADDRESS
    assert google.requests == [GET] * 3
    missing = ("Google Cloud KMS has no such key version.", True)
    assert [failure(backend(location=None)), failure(backend(project_id="other"))] == [missing, missing]
    assert google.requests[3:] == [SIGN.replace("europe-west3", "global"), SIGN.replace("test-project", "other")]


REQUIRED = {
    "key": ["key_ring_id", "key_id"],
    "service_account": ["project_id", "private_key_id", "private_key", "client_email"],
}


def test_a_config_that_cannot_be_used_is_refused_at_its_field(google: GoogleServer) -> None:
    for section, fields in REQUIRED.items():
        whole = config()
        del whole[section]
        assert failure(GoogleKms(whole)) == (f"{section} is missing.", True)
        for field in fields:
            for value in (None, ""):
                assert failure(backend(section, **{field: value})) == (f"{section}.{field} is missing.", True)
    for field in (*REQUIRED["service_account"], "universe_domain"):
        not_text = f"service_account.{field} must be a string."
        assert failure(backend("service_account", **{field: 5})) == (not_text, True)
    signer = backend("service_account", universe_domain="example.com")
    assert failure(signer) == ("service_account.universe_domain must be googleapis.com.", True)
    # A name cannot reach another resource.
    for field in ("location", "key_ring_id", "key_id", "project_id"):
        for value in ("a/b", "..", "a?b", "a#b", "a%2fb", "a b", "ä", "a\n"):
            not_allowed = f"key.{field} has a character that is not allowed in a name."
            assert failure(backend(**{field: value})) == (not_allowed, True)
    for version in (0, -1, 1.0, True, "", "0", "01", "1 ", "latest", "9" * 5000, [1]):
        assert failure(backend(key_version=version)) == ("key.key_version must be an integer of at least 1.", True)
    public = SERVICE_ACCOUNT_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    cut, escaped = SERVICE_ACCOUNT_PEM[:400], SERVICE_ACCOUNT_PEM.replace("\n", "\\n")
    for private_key in ("not a key", cut, escaped, pem(ec.derive_private_key(5, ec.SECP256R1())), public):
        assert failure(backend("service_account", private_key=private_key)) == (NOT_RSA, True)
    assert google.requests == []


def test_a_token_that_google_refuses_is_a_permanent_error(google: GoogleServer) -> None:
    stranger = pem(rsa.generate_private_key(65537, 1024))
    for changes, problem in (
        ({"private_key": stranger}, "the token is not signed by the service account"),
        ({"client_email": "somebody-else"}, "wrong in the token: iss, sub"),
        ({"private_key_id": "somebody-else"}, "wrong in the token: header"),
    ):
        assert failure(backend("service_account", **changes)) == (REFUSED, True)
        assert google.refusals[-1] == problem
    google.clock = lambda: time.time() + 7200
    assert failure(backend()) == (REFUSED, True)
    assert google.refusals[-1] == "wrong in the token: exp"


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
    google.plan("/", refusal(401, "UNAUTHENTICATED"))

    assert backend().address() == ADDRESS
    assert google.requests == [GET, GET]


def test_what_may_pass_is_tried_again(google: GoogleServer, pauses: list[float]) -> None:
    names = {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 502: "UNKNOWN", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
    for status, name in names.items():
        google.plan("/", *[refusal(status, name)] * 2)
        assert recovered_address(backend().sign_digest(DIGEST), DIGEST) == ADDRESS
    assert google.requests == [SIGN, SIGN, SIGN, GET] * 5
    assert pauses == [0.2, 0.6] * 5


def test_after_three_attempts_it_is_a_passing_error(google: GoogleServer, pauses: list[float]) -> None:
    html = Answer(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"})
    for answer, error in (
        (refusal(429, "RESOURCE_EXHAUSTED"), BUSY),
        (refusal(503, "UNAVAILABLE"), FAULT.format(503)),
        (html, FAULT.format(502)),
    ):
        google.plan("/", *[answer] * 3)
        assert failure(backend()) == (error, False)
    assert (google.requests, pauses) == ([SIGN] * 9, [0.2, 0.6] * 3)


def test_a_refusal_is_a_permanent_error_and_is_not_repeated(google: GoogleServer) -> None:
    disabled = "the key version is disabled or destroyed, or is not for signing."
    for status, name, message in (
        (400, "FAILED_PRECONDITION", f"Google Cloud KMS refused the request: {disabled}"),
        (403, "PERMISSION_DENIED", "Google Cloud KMS does not allow this service account to use the key."),
        (404, "NOT_FOUND", "Google Cloud KMS has no such key version."),
        (409, "ABORTED", "Google Cloud KMS refused the request (HTTP 409). Check the config."),
    ):
        google.plan("/", refusal(status, name))
        assert failure(backend()) == (message, True)
    assert google.requests == [SIGN] * 4


def test_an_answer_that_cannot_be_read_is_a_passing_error(google: GoogleServer) -> None:
    for answer in (b"", b"<html>It works!</html>", b"null", b"5", b"\xff\xfe", b'{"signature": 5}'):
        google.plan("/", Answer(200, answer))
        assert failure(backend()) == (NOT_UNDERSTOOD, False)
    zeros = bytes(64)
    checksum = str(google_crc32c.value(zeros))
    google.changes = {"signature": base64.b64encode(zeros).decode(), "signatureCrc32c": checksum}
    assert failure(backend()) == (NOT_UNDERSTOOD, False)


def test_an_answer_that_was_changed_on_its_way_is_refused(google: GoogleServer) -> None:
    signer = backend()
    signer.address()
    for changes in (
        *({"signatureCrc32c": "1"}, {"signatureCrc32c": None}, {"signature": None}),
        *({"verifiedDigestCrc32c": False}, {"verifiedDigestCrc32c": None}),
        *({"name": NAME.replace("treasury", "other")}, {"name": None}),
    ):
        google.changes = changes
        assert failure(signer) == (CORRUPTED, False)


def test_a_public_key_that_cannot_be_used_is_refused(google: GoogleServer) -> None:
    p256 = ec.derive_private_key(5, ec.SECP256R1()).public_key()
    other_keys = (b"not a key", p256.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    unreadable = [{"pem": key.decode(), "pemCrc32c": str(google_crc32c.value(key))} for key in other_keys]
    algorithm = "The algorithm of the key in Google Cloud KMS is not EC_SIGN_SECP256K1_SHA256."
    changed = ({"pemCrc32c": "1"}, {"pemCrc32c": None}, {"pem": None}, {"name": f"{NAME}2"}, {"name": None})
    for changes, error in (
        *((each, (CORRUPTED, False)) for each in changed),
        *((each, (NOT_UNDERSTOOD, False)) for each in unreadable),
        *(({"algorithm": number}, (algorithm, True)) for number in (12, 40, 0, None)),
    ):
        google.changes = changes
        with pytest.raises(SignerError) as raised:
            backend().address()
        assert (str(raised.value), raised.value.permanent) == error


def test_a_server_that_does_not_answer_is_given_up(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr(http, "ATTEMPT_SECONDS", 0.1)
    google.plan("/", *[Answer(200, {}, hang=True)] * 3)
    assert failure(backend()) == (UNREACHABLE, False)
    assert pauses == [0.2, 0.6]
    monkeypatch.setenv("GOOGLE_KMS_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert failure(backend()) == (UNREACHABLE, False)


def test_nothing_secret_is_in_an_error_or_a_log(google: GoogleServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    google.plan("/", refusal(403, "PERMISSION_DENIED", FOREIGN_TEXT))
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

    assert failure(backend()) == (
        "google-cloud-kms is not installed. Run .venv/bin/pip install -e '.[google]' in the project's folder.",
        True,
    )
