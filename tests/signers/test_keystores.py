"""Keystore files: decrypted with the passphrase, within bounds, and without a trace of secrets in errors."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from eth_account import Account

from signers.keystores import KeystoreError, decrypt
from tests.relayers.factories import KEY

PASSPHRASE = "pass SECRET wörd"
# As geth writes it with --lightkdf, but cheaper.
KEYSTORE: dict[str, Any] = Account.encrypt(bytes.fromhex(KEY[2:]), PASSPHRASE, kdf="scrypt", iterations=2)
PARAMETERS = KEYSTORE["crypto"]["kdfparams"]


def changed(path: str, value: Any) -> Any:
    """Return the keystore with another value at a path."""
    keystore = copy.deepcopy(KEYSTORE)
    *parents, last = path.split(".")
    place: Any = keystore
    for name in parents:
        place = place[name]
    place[last] = value
    return keystore


@pytest.mark.parametrize("kdf", ["scrypt", "pbkdf2"])
def test_a_key_is_decrypted(kdf: Any) -> None:
    assert decrypt(Account.encrypt(bytes.fromhex(KEY[2:]), PASSPHRASE, kdf=kdf, iterations=16), PASSPHRASE) == KEY


def test_older_files_have_a_capital_letter() -> None:
    older = {("Crypto" if name == "crypto" else name): value for name, value in KEYSTORE.items()}
    assert decrypt(older, PASSPHRASE) == KEY


def test_a_wrong_passphrase_is_an_error_that_does_not_repeat_it() -> None:
    for passphrase in ("", "pass SECRET wörd ", "other"):
        with pytest.raises(KeystoreError, match=r"^the passphrase is wrong, or the keystore is damaged$"):
            decrypt(KEYSTORE, passphrase)


@pytest.mark.parametrize(
    ("keystore", "fault"),
    [
        ([], "this is not a keystore of version 3"),
        ({}, "this is not a keystore of version 3"),
        (changed("version", 1), "this is not a keystore of version 3"),
        (changed("crypto", []), "crypto must be an object"),
        (changed("crypto.cipher", "aes-128-cbc"), "cipher must be aes-128-ctr"),
        (changed("crypto.cipherparams", None), "cipherparams must be an object"),
        (changed("crypto.cipherparams.iv", "00"), "iv must be 16 bytes in hex"),
        (changed("crypto.ciphertext", "00" * 33), "ciphertext must be 32 bytes in hex"),
        (changed("crypto.ciphertext", "zz"), "ciphertext must be in hex"),
        (changed("crypto.mac", "00"), "mac must be 32 bytes in hex"),
        (changed("crypto.mac", "00" * 32), "the passphrase is wrong, or the keystore is damaged"),
        (changed("crypto.kdf", "argon2"), "kdf must be scrypt or pbkdf2"),
        (changed("crypto.kdf", "pbkdf2"), "prf must be hmac-sha256"),
        (changed("crypto.kdfparams.dklen", 64), "dklen must be 32"),
        (changed("crypto.kdfparams.salt", "0" * 1_026), "salt must be in hex"),
        (changed("crypto.kdfparams.n", 3), "n must be a power of 2"),
        (changed("crypto.kdfparams.n", 1), "n must be a power of 2"),
        # Too much memory, of the table or of the blocks, or too much time.
        (changed("crypto.kdfparams.n", 2**19), "n, r and p are too high"),
        (changed("crypto.kdfparams.p", 2**19), "n, r and p are too high"),
        (changed("crypto.kdfparams", PARAMETERS | {"n": 2**18, "p": 5}), "n, r and p are too high"),
        (changed("crypto.kdfparams.n", 2**80), "n must be a whole number from 1 to 8388608"),
        (changed("crypto.kdfparams.r", True), "r must be a whole number from 1 to 8388608"),
        (changed("crypto.kdfparams.r", "8"), "r must be a whole number from 1 to 8388608"),
    ],
)
def test_a_malformed_or_costly_keystore_is_refused(keystore: Any, fault: str) -> None:
    with pytest.raises(KeystoreError) as raised:
        decrypt(keystore, PASSPHRASE)
    assert str(raised.value) == fault


def test_the_cost_of_geth_s_own_keystores_is_within_bounds() -> None:
    # The MAC is wrong, as nothing was encrypted at this cost: it is compared after the derivation.
    costly = changed("crypto.kdfparams", PARAMETERS | {"n": 2**18, "r": 8, "p": 1})
    with pytest.raises(KeystoreError, match="the passphrase is wrong"):
        decrypt(costly, PASSPHRASE)
