"""AWS KMS: against moto's server over HTTP, and against one that fails in the ways the real one does."""

import base64
import hashlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from signers.backends.base import SignerError
from tests.servers import free_port
from tests.signers.backends.vault_server import Answer, Asked, StandIn, failure, recovered_address

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


class FaultyKms(StandIn):
    """The two operations of KMS."""

    @property
    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        return [(asked.headers["X-Amz-Target"], json.loads(asked.body)) for asked in self.asked]

    def fail(self, status: int, code: str, times: int = 1) -> None:
        self.plan("/", *[Answer(status, {"__type": code, "message": FOREIGN_TEXT})] * times)

    def respond(self, asked: Asked) -> Answer:
        if asked.headers["X-Amz-Target"] == "TrentService.GetPublicKey":
            return Answer(200, public_key_answer())
        digest = base64.b64decode(json.loads(asked.body)["Message"])
        signature = KEY.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
        return Answer(200, {"KeyId": KEY_ID, "Signature": base64.b64encode(signature).decode()})


def public_key_answer(**changes: Any) -> dict[str, Any]:
    der = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    answer = {
        "KeyId": KEY_ID,
        "KeySpec": "ECC_SECG_P256K1",
        "KeyUsage": "SIGN_VERIFY",
        "PublicKey": base64.b64encode(der).decode(),
        "SigningAlgorithms": ["ECDSA_SHA_256"],
    }
    return answer | changes


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


@contextmanager
def run_moto() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moto.kms.utils.ECDSAPrivateKey.sign", sign_digest_as_kms_does)
        server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    with run_moto() as url:
        yield url


@pytest.fixture
def moto(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of moto's KMS, to make keys with."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", moto_url)
    return boto3.session.Session().client("kms", region_name=REGION)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyKms]:
    with FaultyKms() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", server.url)
        yield server


def backend(key_id: str = KEY_ID, region: str = REGION) -> AwsKms:
    return AwsKms({"key_id": key_id, "region": region})


def new_key(moto: Any, spec: str = "ECC_SECG_P256K1") -> str:
    key_id: str = moto.create_key(KeySpec=spec, KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    return key_id


def test_digests_are_signed_by_the_key_in_kms(moto: Any) -> None:
    metadata = moto.create_key(KeySpec="ECC_SECG_P256K1", KeyUsage="SIGN_VERIFY")["KeyMetadata"]
    moto.create_alias(AliasName="alias/treasury", TargetKeyId=metadata["KeyId"])
    point = moto.get_public_key(KeyId=metadata["KeyId"])["PublicKey"][-64:]
    address = datatypes.PublicKey(point).to_checksum_address()
    for key_id in (metadata["KeyId"], metadata["Arn"], "alias/treasury"):
        assert backend(key_id).address() == address
    signer = backend(metadata["KeyId"])
    digests = [hashlib.sha256(bytes([n])).digest() for n in range(10)]
    signatures = [signer.sign_digest(digest) for digest in digests]
    assert [recovered_address(*pair) for pair in zip(signatures, digests, strict=True)] == [address] * 10
    assert all(signature.s <= SECPK1_N // 2 for signature in signatures)


def test_a_key_that_is_not_there_or_of_another_spec_is_refused(moto: Any) -> None:
    missing = ("AWS KMS has no key with this key_id in this region.", True)
    assert failure(backend(KEY_ID)) == missing
    assert failure(backend(new_key(moto), region="us-east-1")) == missing
    for spec in ("ECC_NIST_P256", "RSA_2048"):
        with pytest.raises(SignerError) as raised:
            backend(new_key(moto, spec)).address()
        assert (str(raised.value), raised.value.permanent) == (NOT_FOR_SIGNING, True)


def test_the_digest_is_what_is_signed_and_the_public_key_is_asked_for_once(faulty: FaultyKms) -> None:
    signer = backend()
    for _ in range(3):
        signer.sign_digest(DIGEST)
    message = {"Message": base64.b64encode(DIGEST).decode(), "MessageType": "DIGEST"}
    sign = ("TrentService.Sign", {"KeyId": KEY_ID, **message, "SigningAlgorithm": "ECDSA_SHA_256"})
    assert faulty.requests == [sign, ("TrentService.GetPublicKey", {"KeyId": KEY_ID}), sign, sign]
    assert all(f"/{REGION}/kms/aws4_request" in asked.headers["Authorization"] for asked in faulty.asked)
    assert faulty.connections == 1


def test_threads_share_a_signer(faulty: FaultyKms) -> None:
    signer = backend()
    with ThreadPoolExecutor(8) as pool:
        signatures = list(pool.map(signer.sign_digest, [DIGEST] * 40))
    assert {recovered_address(signature, DIGEST) for signature in signatures} == {ADDRESS}


PASSING = {
    (400, "ThrottlingException"): BUSY,
    (500, "KMSInternalException"): FAULT.format(500),
    (502, ""): FAULT.format(502),
    (503, "DependencyTimeoutException"): FAULT.format(503),
    (500, "KeyUnavailableException"): FAULT.format(500),
}


def test_what_may_pass_is_tried_again(faulty: FaultyKms, pauses: list[float]) -> None:
    for status, code in PASSING:
        faulty.fail(status, code, times=2)
        assert recovered_address(backend().sign_digest(DIGEST), DIGEST) == ADDRESS
    operations = ["TrentService.Sign"] * 3 + ["TrentService.GetPublicKey"]
    assert [operation for operation, _ in faulty.requests] == operations * len(PASSING)
    assert pauses == [0.2, 0.6] * len(PASSING)


def test_after_three_attempts_it_is_a_passing_error(faulty: FaultyKms, pauses: list[float]) -> None:
    for (status, code), error in PASSING.items():
        faulty.fail(status, code, times=3)
        assert failure(backend()) == (error, False)
    assert (len(faulty.requests), pauses) == (3 * len(PASSING), [0.2, 0.6] * len(PASSING))


def test_a_refusal_is_a_permanent_error_and_is_not_repeated(faulty: FaultyKms) -> None:
    refused = "AWS KMS refused the credentials."
    messages = {
        "AccessDeniedException": "AWS KMS does not allow these credentials to use the key.",
        "NotFoundException": "AWS KMS has no key with this key_id in this region.",
        "DisabledException": "The key is disabled in AWS KMS.",
        "KMSInvalidStateException": "The key cannot be used now: AWS KMS is creating or deleting it.",
        "InvalidKeyUsageException": NOT_FOR_SIGNING,
        "UnrecognizedClientException": refused,
        "InvalidSignatureException": refused,
        "ExpiredTokenException": refused,
        "SomethingNewException": "AWS KMS refused the request (HTTP 400). Check the config.",
    }
    for code, message in messages.items():
        faulty.fail(400, code)
        with pytest.raises(SignerError) as raised:
            backend().sign_digest(DIGEST)
        assert (str(raised.value), raised.value.permanent) == (message, True)
        # The text of AWS is not repeated.
        assert FOREIGN_TEXT not in "".join(traceback.format_exception(raised.value))
    assert len(faulty.requests) == len(messages)


def test_an_answer_that_cannot_be_read_is_a_passing_error(faulty: FaultyKms) -> None:
    signatures = ({"Signature": value} for value in (5, "%%%", "AAAA"))
    for answer in (b"", b"<html>It works!</html>", b"[]", b"null", b"\xff\xfe", {}, *signatures):
        faulty.plan("/", *[Answer(200, answer)] * 3)
        assert failure(backend()) == (NOT_UNDERSTOOD, False)
        faulty.unplan()
    keys: list[dict[str, Any]] = [{"PublicKey": value} for value in (None, "", "AAAA", "%%%")]
    for changes in (*keys, {"KeyUsage": "KEY_AGREEMENT"}):
        error = (NOT_UNDERSTOOD, False) if changes in keys else (NOT_FOR_SIGNING, True)
        faulty.plan("/", Answer(200, public_key_answer(**changes)))
        with pytest.raises(SignerError) as raised:
            backend().address()
        assert (str(raised.value), raised.value.permanent) == error


def test_a_server_that_does_not_answer_is_given_up(
    faulty: FaultyKms, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    unreachable = ("AWS KMS cannot be reached or does not respond in time.", False)
    monkeypatch.setattr(http, "ATTEMPT_SECONDS", 0.1)
    faulty.plan("/", *[Answer(200, {}, hang=True)] * 3)
    assert failure(backend()) == unreachable
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://127.0.0.1:{free_port()}")
    assert failure(backend()) == unreachable
    assert pauses == [0.2, 0.6] * 2


def test_a_configuration_that_cannot_be_used_is_a_permanent_error(
    faulty: FaultyKms, monkeypatch: pytest.MonkeyPatch
) -> None:
    for region in ("not a region", "eu-central-1.example.com/?", "eu/central"):
        assert failure(backend(region=region)) == ("The region is not a valid AWS region name.", True)
    assert failure(backend(key_id="")) == ("The key_id is not valid in AWS KMS.", True)
    not_installed = "boto3 is not installed. Run .venv/bin/pip install -e '.[aws]' in the project's folder."
    for changes, error in (
        ({"AWS_ENDPOINT_URL_KMS": "kms.example.com"}, "AWS_ENDPOINT_URL_KMS is not a valid URL."),
        ({"AWS_PROFILE": "nobody"}, "The AWS configuration of boto3 is not valid."),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, NO_CREDENTIALS),
        ({}, not_installed),
    ):
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.delenv(name) if value is None else patch.setenv(name, value)
            if not changes:
                patch.setitem(sys.modules, "boto3", None)
            assert failure(backend()) == (error, True)
    assert faulty.requests == []
