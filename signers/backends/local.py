"""A key that the service itself stores."""

import re

from eth_keys import datatypes
from eth_keys.constants import SECPK1_N

from signers.backends.base import Secp256k1Backend, SignerError

HEX_KEY = re.compile(r"(?:0x)?([0-9a-fA-F]{64})")


class Local(Secp256k1Backend):
    """A secp256k1 private key of 32 bytes in hex, with or without 0x."""

    _key: datatypes.PrivateKey | None = None

    def _private_key(self) -> datatypes.PrivateKey:
        # The key is not a local variable where the error is raised: error reporters print those.
        if self._key is None:
            self._key = _parse(self.config.get("key"))
        if self._key is None:
            raise SignerError("The key must be a secp256k1 private key: 32 bytes in hex.")
        return self._key

    def check(self) -> None:
        self._private_key()

    def _public_key(self) -> datatypes.PublicKey:
        return self._private_key().public_key

    def _sign(self, digest: bytes) -> tuple[int, int]:
        signature = self._private_key().sign_msg_hash(digest)
        return signature.r, signature.s


def _parse(key: object) -> datatypes.PrivateKey | None:
    match = HEX_KEY.fullmatch(key) if isinstance(key, str) else None
    if match is None:
        return None
    private_key = bytes.fromhex(match[1])
    if not 0 < int.from_bytes(private_key) < SECPK1_N:
        return None
    return datatypes.PrivateKey(private_key)
