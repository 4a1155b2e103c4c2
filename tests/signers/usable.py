"""Configs with which signers could work, as far as that shows without asking anybody."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tests.signers.examples import CONFIGS

P256 = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())


@cache
def usable(signer_type: str) -> dict[str, Any]:
    made = {
        "plain": lambda: {"key": "11" * 32},
        "provider_b_kms": google,
        "provider_c_transit": lambda: {"pubkey": "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"},
        "provider_d": turnkey,
        "provider_e": coinbase,
    }
    return CONFIGS[signer_type] | made.get(signer_type, dict)()


def google() -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    account = {"project_id": "project", "client_email": "a@example.com", "private_key_id": "1"}
    return {
        "key": {"project_id": "p", "location": "global", "key_ring_id": "ring", "key_id": "key", "key_version": 1},
        "service_account": account | {"private_key": der_or_pem(key, Encoding.PEM).decode()},
    }


def turnkey() -> dict[str, Any]:
    point = P256.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    key = ec.derive_private_key(7, ec.SECP256K1()).public_key()
    return {
        "api_private_key": f"{0xC0FFEE:064x}",
        "api_public_key": point.hex(),
        "public_key": key.public_bytes(Encoding.X962, PublicFormat.CompressedPoint).hex(),
    }


def coinbase() -> dict[str, Any]:
    return {
        "api_key_secret": base64.b64encode(bytes(64)).decode(),
        "wallet_secret": base64.b64encode(der_or_pem(P256, Encoding.DER)).decode(),
    }


def der_or_pem(key: Any, encoding: Encoding) -> bytes:
    form: bytes = key.private_bytes(encoding, PrivateFormat.PKCS8, NoEncryption())
    return form
