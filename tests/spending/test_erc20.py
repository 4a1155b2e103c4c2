"""Decoding of ERC-20 calls: only what has one meaning to every contract."""

import pytest
from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from spending.erc20 import FUNCTIONS, TokenCall, decode
from tests.spending.payloads import ALICE, APPROVE, BOB, TRANSFER, TRANSFER_FROM, call, words

ADDRESSES = st.binary(min_size=20, max_size=20).map(to_checksum_address)
AMOUNTS = st.integers(0, 2**256 - 1)
SIGNATURES = {
    "transfer": ("address", "uint256"),
    "approve": ("address", "uint256"),
    "transferFrom": ("address", "address", "uint256"),
}
NAMES = st.sampled_from([*SIGNATURES])


def encoded(name: str, sender: str, recipient: str, amount: int) -> bytes:
    types = SIGNATURES[name]
    values = [sender, recipient, amount][-len(types) :]
    return function_signature_to_4byte_selector(f"{name}({','.join(types)})") + encode(types, values)


@given(NAMES, ADDRESSES, ADDRESSES, AMOUNTS)
def test_a_canonical_encoding_is_decoded(name: str, sender: str, recipient: str, amount: int) -> None:
    assert decode(encoded(name, sender, recipient, amount)) == TokenCall(name, recipient, amount)


@given(NAMES, ADDRESSES, ADDRESSES, AMOUNTS, st.data())
def test_a_flipped_bit_is_refused_or_means_something_else(
    name: str, sender: str, recipient: str, amount: int, data: st.DataObject
) -> None:
    original = encoded(name, sender, recipient, amount)
    bit = data.draw(st.integers(0, 8 * len(original) - 1))
    changed = (int.from_bytes(original, "big") ^ (1 << bit)).to_bytes(len(original), "big")
    found = decode(changed)
    # Whose tokens are moved is no part of a rule.
    is_sender = name == "transferFrom" and 64 * 8 <= bit < 84 * 8
    assert (found == TokenCall(name, recipient, amount)) is is_sender
    if found is not None:
        assert encoded(found.function, *_senders(changed, found), found.amount) == changed


def _senders(data: bytes, found: TokenCall) -> tuple[str, str]:
    return to_checksum_address(data[16:36]), found.recipient


@given(st.sampled_from([*FUNCTIONS]), st.binary(max_size=130))
def test_whatever_is_decoded_encodes_to_the_same_data(selector: bytes, arguments: bytes) -> None:
    data = selector + arguments
    if (found := decode(data)) is not None:
        assert encoded(found.function, *_senders(data, found), found.amount) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        bytes(4),
        bytes.fromhex(TRANSFER)[:3],
        bytes.fromhex(TRANSFER),
        call(TRANSFER, ALICE),
        call(TRANSFER, ALICE, 5)[:-1],
        call(TRANSFER, ALICE, 5) + b"\0",
        call(TRANSFER, ALICE, 5, 0),
        call(TRANSFER, 2**160 + int(ALICE, 16), 5),
        call(TRANSFER, 2**255 + int(ALICE, 16), 5),
        call(APPROVE, ALICE, 5, 0),
        call(TRANSFER_FROM, ALICE, 5),
        call(TRANSFER_FROM, 2**160 + int(ALICE, 16), BOB, 5),
        call(TRANSFER_FROM, ALICE, 2**160 + int(BOB, 16), 5),
        call("39509351", ALICE, 5),
        words(ALICE, 5),
    ],
)
def test_other_data_is_not_decoded(data: bytes) -> None:
    assert decode(data) is None
