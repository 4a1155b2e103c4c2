"""AWS KMS: against moto's server over HTTP, and against one that fails in the ways the real one does."""

import base64
import hashlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from eth_keys import datatypes
from eth_keys.constants import SECPK1_N

from signers.backends import http
from signers.backends.aws_kms import AwsKms
from signers.backends.base import Signature, SignerError
from tests.servers import free_port

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
moto_server = pytest.importorskip("moto.server", reason="moto is not installed")

REGION = "eu-central-1"
KEY_ID = "1234abcd-12ab-34cd-56ef-1234567890ab"
# The first account of the mnemonic that development chains start with.
KEY = ec.derive_private_key(0xAC0974BEC39A17E36BA4A6B4D238FF944BACB478CBED5EFCAE784D7BF4F2FF80, ec.SECP256K1())
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
DIGEST = hashlib.sha256(b"a digest for tests").digest()
FOREIGN_TEXT = "arn:aws:kms:eu-central-1:111122223333:key/some-secret-detail"

BUSY = "AWS KMS is throttling requests."
FAULT = "AWS KMS is unavailable (HTTP {})."
NOT_UNDERSTOOD = "AWS KMS returned an invalid response."
NOT_FOR_SIGNING = "The key in AWS KMS is not a signing key of the spec ECC_SECG_P256K1."
NO_CREDENTIALS = "No AWS credentials found. Set AWS_ACCESS_KEY_ID or attach a role."


class FaultyKms(ThreadingHTTPServer):
    """The two operations of KMS, after the answers that a test wants first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FaultyKmsHandler)
        self.first_answers: list[tuple[int, bytes]] = []
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.authorizations: list[str] = []
        self.connections = 0
        self.answer_again = threading.Event()
        self.answer_again.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fail(self, status: int, code: str, times: int = 1) -> None:
        body = json.dumps({"__type": code, "message": FOREIGN_TEXT}).encode()
        self.first_answers += [(status, body)] * times

    def answer(self, operation: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.first_answers:
            return self.first_answers.pop(0)
        if operation == "TrentService.GetPublicKey":
            return 200, public_key_answer()
        digest = base64.b64decode(body["Message"])
        signature = KEY.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
        return 200, json.dumps({"KeyId": KEY_ID, "Signature": base64.b64encode(signature).decode()}).encode()


class FaultyKmsHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyKms

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"]
        self.server.requests.append((operation, body))
        self.server.authorizations.append(self.headers["Authorization"])
        if not self.server.answer_again.is_set():
            self.close_connection = True
            self.server.answer_again.wait()
            return
        status, answer = self.server.answer(operation, body)
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def public_key_answer(**changes: Any) -> bytes:
    der = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    answer = {
        "KeyId": KEY_ID,
        "KeySpec": "ECC_SECG_P256K1",
        "KeyUsage": "SIGN_VERIFY",
        "PublicKey": base64.b64encode(der).decode(),
        "SigningAlgorithms": ["ECDSA_SHA_256"],
    }
    return json.dumps(answer | changes).encode()


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let boto3 find the credentials of the test alone."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def sign_digest_as_kms_does(key: Any, message: bytes, signing_algorithm: str) -> bytes:
    """Sign as MessageType=DIGEST asks: moto 5 ignores it and hashes the digest once more."""
    signature: bytes = key.private_key.sign(message, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
    return signature


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moto.kms.utils.ECDSAPrivateKey.sign", sign_digest_as_kms_does)
        yield from run_moto()


def run_moto() -> Iterator[str]:
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of moto's KMS, to make keys with."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", moto_url)
    return boto3.session.Session().client("kms", region_name=REGION)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyKms]:
    with FaultyKms() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", server.url)
        yield server
        server.answer_again.set()
        server.shutdown()
        thread.join()


def backend(key_id: str = KEY_ID, region: str = REGION) -> AwsKms:
    return AwsKms({"key_id": key_id, "region": region})


def new_key(moto: Any, spec: str = "ECC_SECG_P256K1") -> str:
    key_id: str = moto.create_key(KeySpec=spec, KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    return key_id


def recovered_address(signature: Signature, digest: bytes) -> str:
    vrs = datatypes.Signature(vrs=(signature.recovery_id, signature.r, signature.s))
    address: str = vrs.recover_public_key_from_msg_hash(digest).to_checksum_address()
    return address


def error_of(signer: AwsKms) -> tuple[str, bool]:
    with pytest.raises(SignerError) as raised:
        signer.sign_digest(DIGEST)
    return str(raised.value), raised.value.permanent


def test_the_address_is_that_of_the_key_in_kms(moto: Any) -> None:
    key_id = new_key(moto)
    point = moto.get_public_key(KeyId=key_id)["PublicKey"][-64:]

    assert backend(key_id).address() == datatypes.PublicKey(point).to_checksum_address()


def test_signatures_recover_to_the_address(moto: Any) -> None:
    signer = backend(new_key(moto))
    digests = [hashlib.sha256(bytes([n])).digest() for n in range(20)]

    signatures = [signer.sign_digest(digest) for digest in digests]

    assert [recovered_address(*pair) for pair in zip(signatures, digests, strict=True)] == [signer.address()] * 20
    assert all(signature.s <= SECPK1_N // 2 for signature in signatures)


def test_a_key_is_found_by_its_arn_and_by_an_alias(moto: Any) -> None:
    metadata = moto.create_key(KeySpec="ECC_SECG_P256K1", KeyUsage="SIGN_VERIFY")["KeyMetadata"]
    moto.create_alias(AliasName="alias/treasury", TargetKeyId=metadata["KeyId"])
    address = backend(metadata["KeyId"]).address()

    assert [backend(metadata["Arn"]).address(), backend("alias/treasury").address()] == [address, address]


@pytest.mark.parametrize("spec", ["ECC_NIST_P256", "RSA_2048"])
def test_a_key_of_another_spec_is_refused(moto: Any, spec: str) -> None:
    with pytest.raises(SignerError) as raised:
        backend(new_key(moto, spec)).address()

    assert str(raised.value) == NOT_FOR_SIGNING
    assert raised.value.permanent


def test_a_key_that_is_not_there_is_a_permanent_error(moto: Any) -> None:
    assert error_of(backend(KEY_ID)) == ("AWS KMS has no key with this key_id in this region.", True)


def test_a_key_of_another_region_is_not_there(moto: Any) -> None:
    signer = backend(new_key(moto), region="us-east-1")

    assert error_of(signer) == ("AWS KMS has no key with this key_id in this region.", True)


def test_the_digest_is_what_is_signed_and_the_public_key_is_asked_for_once(faulty: FaultyKms) -> None:
    signer = backend()

    signer.sign_digest(DIGEST)
    signer.sign_digest(DIGEST)

    sign = (
        "TrentService.Sign",
        {
            "KeyId": KEY_ID,
            "Message": base64.b64encode(DIGEST).decode(),
            "MessageType": "DIGEST",
            "SigningAlgorithm": "ECDSA_SHA_256",
        },
    )
    assert faulty.requests == [sign, ("TrentService.GetPublicKey", {"KeyId": KEY_ID}), sign]
    assert all(f"/{REGION}/kms/aws4_request" in authorization for authorization in faulty.authorizations)


def test_one_connection_serves_many_calls(faulty: FaultyKms) -> None:
    signer = backend()

    for _ in range(5):
        signer.sign_digest(DIGEST)

    assert (len(faulty.requests), faulty.connections) == (6, 1)


def test_threads_share_a_signer(faulty: FaultyKms) -> None:
    signer = backend()

    with ThreadPoolExecutor(8) as pool:
        signatures = list(pool.map(signer.sign_digest, [DIGEST] * 40))

    assert {recovered_address(signature, DIGEST) for signature in signatures} == {ADDRESS}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ThrottlingException"),
        (500, "KMSInternalException"),
        (503, "DependencyTimeoutException"),
        (500, "KeyUnavailableException"),
    ],
)
def test_what_may_pass_is_tried_again(faulty: FaultyKms, pauses: list[float], status: int, code: str) -> None:
    faulty.fail(status, code, times=2)

    signature = backend().sign_digest(DIGEST)

    assert recovered_address(signature, DIGEST) == ADDRESS
    assert [operation for operation, _ in faulty.requests] == ["TrentService.Sign"] * 3 + ["TrentService.GetPublicKey"]
    assert pauses == [0.2, 0.6]


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "ThrottlingException", (BUSY, False)),
        (500, "KMSInternalException", (FAULT.format(500), False)),
        (502, "", (FAULT.format(502), False)),
        (503, "DependencyTimeoutException", (FAULT.format(503), False)),
    ],
)
def test_after_three_attempts_it_is_a_passing_error(
    faulty: FaultyKms, pauses: list[float], status: int, code: str, error: tuple[str, bool]
) -> None:
    faulty.fail(status, code, times=4)

    assert error_of(backend()) == error
    assert (len(faulty.requests), pauses) == (3, [0.2, 0.6])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("AccessDeniedException", "AWS KMS does not allow these credentials to use the key."),
        ("NotFoundException", "AWS KMS has no key with this key_id in this region."),
        ("DisabledException", "The key is disabled in AWS KMS."),
        ("KMSInvalidStateException", "The key cannot be used now: AWS KMS is creating or deleting it."),
        ("InvalidKeyUsageException", NOT_FOR_SIGNING),
        ("UnrecognizedClientException", "AWS KMS refused the credentials."),
        ("InvalidSignatureException", "AWS KMS refused the credentials."),
        ("ExpiredTokenException", "AWS KMS refused the credentials."),
        ("SomethingNewException", "AWS KMS refused the request (HTTP 400). Check the config."),
    ],
)
def test_a_refusal_is_a_permanent_error_and_is_not_repeated(faulty: FaultyKms, code: str, message: str) -> None:
    faulty.fail(400, code)

    assert error_of(backend()) == (message, True)
    assert len(faulty.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>It works!</html>",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"Signature": 5}',
        b'{"Signature": "%%%"}',
        b'{"Signature": "AAAA"}',
    ],
)
def test_a_signature_that_cannot_be_read_is_a_passing_error(faulty: FaultyKms, answer: bytes) -> None:
    faulty.first_answers = [(200, answer)] * 3

    assert error_of(backend()) == (NOT_UNDERSTOOD, False)


@pytest.mark.parametrize("public_key", [None, "", "AAAA", "%%%"])
def test_a_public_key_that_cannot_be_read_is_a_passing_error(faulty: FaultyKms, public_key: str | None) -> None:
    faulty.first_answers = [(200, public_key_answer(PublicKey=public_key))]

    with pytest.raises(SignerError) as raised:
        backend().address()

    assert (str(raised.value), raised.value.permanent) == (NOT_UNDERSTOOD, False)


def test_a_key_that_is_not_for_signing_is_refused(faulty: FaultyKms) -> None:
    faulty.first_answers = [(200, public_key_answer(KeyUsage="KEY_AGREEMENT"))]

    with pytest.raises(SignerError) as raised:
        backend().address()

    assert str(raised.value) == NOT_FOR_SIGNING
    assert raised.value.permanent


def test_without_credentials_nothing_is_sent(faulty: FaultyKms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    assert error_of(backend()) == (NO_CREDENTIALS, True)
    assert faulty.requests == []


def test_a_profile_that_is_not_there_is_a_permanent_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    assert error_of(backend()) == ("The AWS configuration of boto3 is not valid.", True)


def test_a_server_that_is_not_there_is_a_passing_error(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{free_port()}")

    assert error_of(backend()) == ("AWS KMS cannot be reached or does not respond in time.", False)
    assert pauses == [0.2, 0.6]


def test_a_server_that_does_not_answer_is_given_up(
    faulty: FaultyKms, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr(http, "ATTEMPT_SECONDS", 0.1)
    faulty.answer_again.clear()

    assert error_of(backend()) == ("AWS KMS cannot be reached or does not respond in time.", False)
    assert pauses == [0.2, 0.6]


@pytest.mark.parametrize("region", ["not a region", "eu-central-1.example.com/?", "eu/central"])
def test_a_region_cannot_lead_to_another_host(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    assert error_of(backend(region=region)) == ("The region is not a valid AWS region name.", True)


def test_an_endpoint_that_is_no_url_is_a_permanent_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "kms.example.com")

    assert error_of(backend()) == ("AWS_ENDPOINT_URL_KMS is not a valid URL.", True)


def test_an_empty_key_id_is_a_permanent_error(faulty: FaultyKms) -> None:
    assert error_of(backend(key_id="")) == ("The key_id is not valid in AWS KMS.", True)


def test_the_text_of_aws_is_not_repeated(faulty: FaultyKms) -> None:
    faulty.fail(400, "AccessDeniedException")

    with pytest.raises(SignerError) as raised:
        backend().sign_digest(DIGEST)

    assert FOREIGN_TEXT not in "".join(traceback.format_exception(raised.value))


def test_without_the_sdk_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)

    assert error_of(backend()) == (
        "boto3 is not installed. Run .venv/bin/pip install -e '.[aws]' in the project's folder.",
        True,
    )
