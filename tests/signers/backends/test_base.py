"""What the base class does for every backend, whatever the backend gives it."""

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from eth_keys import datatypes
from eth_keys.constants import SECPK1_N

from signers.backends.base import Curve, Ed25519Backend, Library, Secp256k1Backend, Signature, SignerError
from tests.servers import PROJECT

KEY = datatypes.PrivateKey(bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"))
OTHER_KEY = datatypes.PrivateKey(bytes.fromhex("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"))
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
DIGEST = hashlib.sha256(b"a digest for tests").digest()
GOOD = KEY.sign_msg_hash(DIGEST)
NOT_BY_THIS_KEY = "The returned signature was not made with this signer's key."


class Remote(Secp256k1Backend):
    """A backend that answers what a test tells it to."""

    def __init__(self, r: int, s: int) -> None:
        super().__init__({"password": "never-show-this"})
        self.answer = r, s
        self.public_keys_asked = 0

    def _public_key(self) -> datatypes.PublicKey:
        self.public_keys_asked += 1
        return KEY.public_key

    def _sign(self, digest: bytes) -> tuple[int, int]:
        return self.answer


class RemoteEd25519(Ed25519Backend):
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))

    def __init__(self, signature: bytes) -> None:
        super().__init__({"password": "never-show-this"})
        self.signature = signature

    def _public_key(self) -> Ed25519PublicKey:
        return self.key.public_key()

    def _sign(self, message: bytes) -> bytes:
        return self.signature


def test_a_signature_has_a_low_s_and_the_recovery_id_of_the_key() -> None:
    for s in (GOOD.s, SECPK1_N - GOOD.s):
        backend = Remote(GOOD.r, s)
        assert backend.sign_digest(DIGEST) == Signature(GOOD.r, GOOD.s, GOOD.v)
        assert repr(backend) == "<Remote>"


@pytest.mark.parametrize(
    ("r", "s"),
    [
        (OTHER_KEY.sign_msg_hash(DIGEST).r, OTHER_KEY.sign_msg_hash(DIGEST).s),
        (KEY.sign_msg_hash(bytes(32)).r, KEY.sign_msg_hash(bytes(32)).s),
        (0, 0),
        (GOOD.r, 0),
        (GOOD.r, SECPK1_N),
        (GOOD.r, -1),
        (-1, GOOD.s),
        (SECPK1_N, GOOD.s),
        (1 << 256, GOOD.s),
        (GOOD.r, 1 << 256),
        (5, GOOD.s),
    ],
)
def test_a_signature_that_is_not_by_the_key_is_refused(r: int, s: int) -> None:
    with pytest.raises(SignerError) as raised:
        Remote(r, s).sign_digest(DIGEST)

    assert (str(raised.value), raised.value.permanent) == (NOT_BY_THIS_KEY, True)


def test_a_digest_has_32_bytes() -> None:
    for length in (0, 31, 33):
        with pytest.raises(ValueError, match=r"^a digest must have 32 bytes$"):
            Remote(GOOD.r, GOOD.s).sign_digest(bytes(length))


def test_the_public_key_is_asked_for_once() -> None:
    backend = Remote(GOOD.r, GOOD.s)

    assert [backend.address(), backend.identity()] == [ADDRESS, ADDRESS]
    backend.sign_digest(DIGEST)
    backend.sign_digest(DIGEST)

    assert backend.public_keys_asked == 1


def test_only_secp256k1_serves_evm_networks() -> None:
    assert {curve: curve.network_types for curve in Curve} == {
        Curve.SECP256K1: frozenset({"evm"}),
        Curve.ED25519: frozenset(),
    }


def test_an_ed25519_signature_is_given_when_it_verifies() -> None:
    signature = RemoteEd25519.key.sign(b"a message")
    backend = RemoteEd25519(signature)

    assert backend.sign(b"a message") == signature
    assert backend.identity() == "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"


@pytest.mark.parametrize("signature", [RemoteEd25519.key.sign(b"another message"), bytes(64), b"", bytes(65)])
def test_an_ed25519_signature_that_does_not_verify_is_refused(signature: bytes) -> None:
    with pytest.raises(SignerError) as raised:
        RemoteEd25519(signature).sign(b"a message")

    assert (str(raised.value), raised.value.permanent) == (NOT_BY_THIS_KEY, True)


def test_a_missing_library_is_installed_as_the_docs_say() -> None:
    error = Library("boto3", "aws", ("boto3",)).missing()
    command = str(error).removeprefix("boto3 is not installed. Run ").removesuffix(" in the project's folder.")
    assert error.permanent
    assert f"    {command}  " in (PROJECT / "docs/signers.md").read_text()
