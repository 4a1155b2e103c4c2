"""The base classes of signer backends: every signature is normalised and verified with the signer's public key.

A backend implements `_public_key` and `_sign`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from eth_keys import datatypes
from eth_keys.constants import SECPK1_N
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

PublicKey = TypeVar("PublicKey")

DIGEST_BYTES = 32
WRONG_KEY = "The returned signature was not made with this signer's key."


class SignerError(Exception):
    """A signer cannot sign. The message is for staff, without secrets or texts of foreign errors.

    A permanent error lasts until the config changes; a retry may help against others.
    """

    def __init__(self, message: str, *, permanent: bool = True) -> None:
        super().__init__(message)
        self.permanent = permanent


@dataclass(frozen=True)
class Library:
    """An optional dependency of a backend: an extra of pyproject.toml, and the modules imported from it."""

    package: str
    extra: str
    modules: tuple[str, ...]

    def is_installed(self) -> bool:
        """Return whether it can be imported, without importing it."""
        return all(map(_is_importable, self.modules))

    def missing(self) -> SignerError:
        command = f".venv/bin/pip install -e '.[{self.extra}]'"
        return SignerError(f"{self.package} is not installed. Run {command} in the project's folder.")


def _is_importable(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # Its parent package is missing.
        return False


class Curve(StrEnum):
    SECP256K1 = "secp256k1"
    ED25519 = "Ed25519"

    @property
    def network_types(self) -> frozenset[str]:
        return frozenset({"evm"}) if self is Curve.SECP256K1 else frozenset()


@dataclass(frozen=True)
class Signature:
    """A recoverable secp256k1 signature with the low s."""

    r: int
    s: int
    recovery_id: int


def public_key_of(key: object) -> datatypes.PublicKey | None:
    """Return a key of cryptography as one of eth-keys, or None if it is not on secp256k1."""
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256K1):
        return None
    return eth_key(key)


def eth_key(key: ec.EllipticCurvePublicKey) -> datatypes.PublicKey:
    return datatypes.PublicKey(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:])


def recover(digest: bytes, r: int, s: int) -> Iterator[tuple[int, datatypes.PublicKey]]:
    """Yield the public keys that a signature can recover to, each with its recovery id."""
    for recovery_id in (0, 1):
        with suppress(BadSignature, ValidationError):
            signature = datatypes.Signature(vrs=(recovery_id, r, s))
            yield recovery_id, signature.recover_public_key_from_msg_hash(digest)


class Backend(ABC, Generic[PublicKey]):
    """Access to a key, created from the decrypted config of a signer and reused."""

    curve: ClassVar[Curve]
    library: ClassVar[Library | None] = None
    _known_public_key: PublicKey | None = None

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def __repr__(self) -> str:
        # Without the config, which has secrets.
        return f"<{type(self).__name__}>"

    def check(self) -> None:
        """Raise SignerError for a config that can never work, as far as that is clear without calling a server."""

    @property
    def public_key(self) -> PublicKey:
        # Not a cached_property: its frame would show the config to error reporters, and in Python 3.11 it has one lock
        # for all instances.
        if self._known_public_key is None:
            self._known_public_key = self._public_key()
        return self._known_public_key

    @abstractmethod
    def _public_key(self) -> PublicKey:
        """Return the public key; called once."""

    @abstractmethod
    def identity(self) -> str:
        """Return the public name of the key: an address, or a public key."""


class Secp256k1Backend(Backend[datatypes.PublicKey]):
    curve = Curve.SECP256K1

    @abstractmethod
    def _sign(self, digest: bytes) -> tuple[int, int]:
        """Return r and any valid s of a signature of a digest."""

    def address(self) -> str:
        """Return the checksummed EVM address."""
        return str(self.public_key.to_checksum_address())

    identity = address

    def sign_digest(self, digest: bytes) -> Signature:
        """Return a signature of 32 bytes that recovers to this signer's key."""
        if len(digest) != DIGEST_BYTES:
            raise ValueError("a digest must have 32 bytes")
        r, s = self._sign(digest)
        s = min(s, SECPK1_N - s)
        for recovery_id, recovered in recover(digest, r, s):
            if recovered == self.public_key:
                return Signature(r, s, recovery_id)
        raise SignerError(WRONG_KEY)


class Ed25519Backend(Backend[Ed25519PublicKey]):
    curve = Curve.ED25519

    @abstractmethod
    def _sign(self, message: bytes) -> bytes:
        """Return the 64 bytes of a signature of a message."""

    def identity(self) -> str:
        return self.public_key.public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        """Return a signature of a message that this signer's public key verifies."""
        signature = self._sign(message)
        try:
            self.public_key.verify(signature, message)
        except InvalidSignature:
            raise SignerError(WRONG_KEY) from None
        return signature
