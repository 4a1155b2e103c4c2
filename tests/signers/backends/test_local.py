"""A key that the service holds itself, against vectors that others published."""

import hashlib
import traceback

import pytest
from eth_keys.constants import SECPK1_N
from hypothesis import given, settings
from hypothesis import strategies as st

from signers.backends.base import SignerError
from signers.backends.local import Local
from tests.signers.backends.vault_server import recovered_address

# The first three accounts of the mnemonic "test test ... junk" that development chains start with.
ACCOUNTS = {
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a": "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
}
KEY, ADDRESS = next(iter(ACCOUNTS.items()))
BACKEND = Local({"key": KEY})

# RFC 6979 with secp256k1 and SHA-256: key, message, r, s.
VECTORS = [
    (
        1,
        b"Satoshi Nakamoto",
        0x934B1EA10A4B3C1757E2B0C017D0B6143CE3C9A7E6A4A49860D7A6AB210EE3D8,
        0x2442CE9D2B916064108014783E923EC36B49743E2FFA1C4496F01A512AAFD9E5,
    ),
    (
        1,
        b"All those moments will be lost in time, like tears in rain. Time to die...",
        0x8600DBD41E348FE5C9465AB92D23E3DB8B98B873BEECD930736488696438CB6B,
        0x547FE64427496DB33BF66019DACBF0039C04199ABB0122918601DB38A72CFC21,
    ),
    (
        SECPK1_N - 1,
        b"Satoshi Nakamoto",
        0xFD567D121DB66E382991534ADA77A6BD3106F0A1098C231E47993447CD6AF2D0,
        0x6B39CD0EB1BC8603E159EF5C20A5C8AD685A45B06CE9BEBED3F153D10D93BED5,
    ),
    (
        0xF8B8AF8CE3C7CCA5E300D33939540C10D45CE001B8F252BFBC57BA0342904181,
        b"Alan Turing",
        0x7063AE83E7F62BBB171798131B4A0564B956930092B33B07B395615D9EC7E15C,
        0x58DFCC1E00A35E1572F366FFE34BA0FC47DB1E7189759B9FB233C5B05AB388EA,
    ),
]

NOT_KEYS = [
    *("", KEY[:-1], KEY + "0", KEY[:-1] + "g", f" {KEY}", KEY + "\n", KEY[:10] + " " + KEY[11:], "0X" + KEY[2:]),
    # A digit of another script, zero, the order of the curve, and a mnemonic.
    *("1" * 63 + "١", "0x" + "0" * 64, f"{SECPK1_N:064x}", "f" * 64, "test " * 11 + "junk"),  # noqa: RUF001
]


def test_the_address_is_that_of_the_key() -> None:
    for key, address in ACCOUNTS.items():
        # Hex is accepted without 0x, and in both cases.
        for text in (key, key[2:], key[2:].upper(), "0x" + key[2:].upper()):
            assert Local({"key": text}).address() == address


@pytest.mark.parametrize(("key", "message", "r", "s"), VECTORS)
def test_signatures_are_those_of_rfc_6979(key: int, message: bytes, r: int, s: int) -> None:
    signature = Local({"key": f"{key:064x}"}).sign_digest(hashlib.sha256(message).digest())

    assert (signature.r, signature.s) == (r, s)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.binary(min_size=32, max_size=32))
def test_every_signature_has_a_low_s_and_recovers_to_the_address(digest: bytes) -> None:
    signature = BACKEND.sign_digest(digest)

    assert signature.s <= SECPK1_N // 2
    assert recovered_address(signature, digest) == ADDRESS


def test_what_is_no_key_is_a_permanent_error_when_it_is_used() -> None:
    for key in NOT_KEYS:
        backend = Local({"key": key})
        for use in (backend.address, lambda backend=backend: backend.sign_digest(bytes(32))):
            with pytest.raises(SignerError) as raised:
                use()
            assert str(raised.value) == "The key must be a secp256k1 private key: 32 bytes in hex."
            assert raised.value.permanent


def test_a_bad_key_is_not_shown_by_an_error_report_that_prints_local_variables() -> None:
    secret = "f" * 64

    with pytest.raises(SignerError) as raised:
        Local({"key": secret}).sign_digest(bytes(32))

    report = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    frames = report.stack[1:]  # the first is this test, which knows the secret
    assert [frame.name for frame in frames][-1] == "_private_key"
    assert secret not in "".join(traceback.StackSummary.from_list(frames).format())


def test_a_key_in_use_is_not_shown() -> None:
    backend = Local({"key": KEY})
    backend.sign_digest(bytes(32))

    assert (repr(backend), str(backend)) == ("<Local>", "<Local>")
