"""An Ed25519 key that never leaves HashiCorp Vault's Transit engine, which signs messages with it."""

import base64
import re
from collections.abc import Mapping
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from signers.backends.base import Ed25519Backend, SignerError
from signers.backends.http import deadline, not_understood
from signers.backends.vault import Vault

HEX_DIGITS = 64

# The version of the key, and the 64 bytes of the signature in base64.
SIGNATURE = re.compile(r"vault:v[0-9]+:([A-Za-z0-9+/]{86}==)")


class VaultTransit(Ed25519Backend):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._vault = Vault(config)

    def check(self) -> None:
        self._vault.check()
        self._public_key()

    def _public_key(self) -> Ed25519PublicKey:
        """Return the key in `pubkey`: 32 bytes in base64, as Vault shows them, or in hex."""
        text = self.config["pubkey"].removeprefix("0x")
        try:
            raw = bytes.fromhex(text) if len(text) == HEX_DIGITS else base64.b64decode(text, validate=True)
            return Ed25519PublicKey.from_public_bytes(raw)
        except ValueError:
            raise SignerError("pubkey is not an Ed25519 public key in base64 or hex.") from None

    def _sign(self, message: bytes) -> bytes:
        path = f"{self.config.get('mount_point', 'transit')}/sign/{self.config['key_name']}"
        body = orjson.dumps({"input": base64.b64encode(message).decode()})
        answer = self._vault.ask("POST", path, body, deadline())
        match = SIGNATURE.fullmatch(str(answer.get("signature")))
        if match is None:
            raise not_understood("Vault")
        return base64.b64decode(match[1])
