"""Keystore files: a key that is encrypted with a passphrase, as Ethereum's tools write it (Web3 Secret Storage 3)."""

import hmac
import re
from typing import Any

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt
from eth_utils.crypto import keccak

VERSION = 3
KEY_BYTES = 32
HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")
MAX_HEX_DIGITS = 1_024
# geth's own keystores need exactly this much memory, and a fourth of this time.
MAX_SCRYPT_BYTES = 2**28
MAX_SCRYPT_COST = 2**23
MAX_ITERATIONS = 10_000_000


class KeystoreError(Exception):
    """Why a keystore cannot be decrypted. The text contains neither the key nor the passphrase."""


def decrypt(keystore: Any, passphrase: str) -> str:
    """Return the key of a keystore, in hex with 0x; raise `KeystoreError`."""
    if not isinstance(keystore, dict) or keystore.get("version") != VERSION:
        raise KeystoreError("this is not a keystore of version 3")
    crypto = _object(keystore, "crypto" if "crypto" in keystore else "Crypto")
    if crypto.get("cipher") != "aes-128-ctr":
        raise KeystoreError("cipher must be aes-128-ctr")
    iv = _bytes(_object(crypto, "cipherparams"), "iv", AES.block_size // 8)
    ciphertext, mac = _bytes(crypto, "ciphertext", KEY_BYTES), _bytes(crypto, "mac", KEY_BYTES)
    derive = _derivation(crypto.get("kdf"), _object(crypto, "kdfparams"))
    try:
        derived = derive.derive(passphrase.encode())
    except MemoryError:
        raise KeystoreError("there is not enough memory to decrypt it") from None
    if not hmac.compare_digest(keccak(derived[16:] + ciphertext), mac):
        raise KeystoreError("the passphrase is wrong, or the keystore is damaged")
    decryptor = Cipher(AES(derived[:16]), CTR(iv)).decryptor()
    return "0x" + (decryptor.update(ciphertext) + decryptor.finalize()).hex()


def _derivation(name: Any, parameters: dict[str, Any]) -> Scrypt | PBKDF2HMAC:
    salt = _bytes(parameters, "salt")
    if parameters.get("dklen") != KEY_BYTES:
        raise KeystoreError(f"dklen must be {KEY_BYTES}")
    if name == "pbkdf2":
        if parameters.get("prf") != "hmac-sha256":
            raise KeystoreError("prf must be hmac-sha256")
        return PBKDF2HMAC(SHA256(), KEY_BYTES, salt, _integer(parameters, "c", MAX_ITERATIONS))
    if name != "scrypt":
        raise KeystoreError("kdf must be scrypt or pbkdf2")
    n, r, p = (_integer(parameters, each, MAX_SCRYPT_COST) for each in ("n", "r", "p"))
    if n == 1 or n & (n - 1):
        raise KeystoreError("n must be a power of 2")
    if 128 * r * max(n, p) > MAX_SCRYPT_BYTES or n * r * p > MAX_SCRYPT_COST:
        raise KeystoreError("n, r and p are too high")
    return Scrypt(salt, KEY_BYTES, n, r, p)


def _object(container: dict[str, Any], name: str) -> dict[str, Any]:
    value = container.get(name)
    if not isinstance(value, dict):
        raise KeystoreError(f"{name} must be an object")
    return value


def _integer(container: dict[str, Any], name: str, maximum: int) -> int:
    value = container.get(name)
    # `type`, not `isinstance`: a bool is an int.
    if type(value) is not int or not 1 <= value <= maximum:
        raise KeystoreError(f"{name} must be a whole number from 1 to {maximum}")
    return value


def _bytes(container: dict[str, Any], name: str, length: int | None = None) -> bytes:
    value = container.get(name)
    if not isinstance(value, str) or len(value) > MAX_HEX_DIGITS or not HEX.fullmatch(value):
        raise KeystoreError(f"{name} must be in hex")
    if length is not None and len(value) != 2 * length:
        raise KeystoreError(f"{name} must be {length} bytes in hex")
    return bytes.fromhex(value)
