"""Encoded transactions, held against those that eth-account makes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import rlp
from eth_account import Account
from eth_account._utils.legacy_transactions import serializable_unsigned_transaction_from_dict
from eth_keys.constants import SECPK1_N
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from chain.transactions import NotATransaction, Prices, Transaction, decode
from tests.chain.encoded import (
    FIELDS,
    HARDHAT_CHAIN,
    KEY,
    RECEIVER,
    SENDER,
    authorization,
    encode,
    fields,
    items_of,
    nested_lists,
    number,
    signed,
    text,
    unsigned,
)
from tests.chain.hardhat import EMPTY_BLOB_HASH, with_blobs

KINDS = sorted(FIELDS)
NOT_ENCODED = "it is not an encoded transaction"
NOT_DIGITS = "it must have an even number of hexadecimal digits"
BAD_SIGNATURE = "its signature is invalid"

PLAIN = Transaction(
    kind=0,
    chain_id=HARDHAT_CHAIN,
    sender=SENDER,
    to=RECEIVER,
    nonce=7,
    value=10**18 + 1,
    data=b"\xfe\xed",
    gas=50_000,
    prices=Prices(gas_price=2_000_000_000),
    access_list=(),
    blob_hashes=(),
    authorizations=(),
    unsigned=b"",
)
DYNAMIC = Prices(max_fee=3_000_000_000, max_priority_fee=1_000_000_000)
ACCESS_LIST = ({"address": RECEIVER, "storageKeys": [f"0x{1:064x}", f"0x{2**255:064x}"]},)


def expected(kind: int) -> Transaction:
    """What a signed transaction of a type, with the fields of `encoded.fields`, is read as."""
    signature = authorization()
    authorizations = {
        "chainId": hex(HARDHAT_CHAIN),
        "address": RECEIVER,
        "nonce": "0x3",
        "yParity": hex(signature.y_parity),
        "r": hex(signature.r),
        "s": hex(signature.s),
    }
    own: dict[int, dict[str, Any]] = {
        0: {},
        1: {"access_list": ACCESS_LIST},
        2: {"access_list": ACCESS_LIST, "prices": DYNAMIC},
        3: {"blob_hashes": (EMPTY_BLOB_HASH, EMPTY_BLOB_HASH), "prices": replace(DYNAMIC, max_blob_fee=5)},
        4: {"authorizations": (authorizations,), "prices": DYNAMIC},
    }
    return replace(PLAIN, kind=kind, unsigned=unsigned(kind), **own[kind])


def why_not(encoded: bytes) -> str:
    """Return the reason for which bytes are no transaction."""
    with pytest.raises(NotATransaction) as refused:
        decode(text(encoded))
    return str(refused.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_is_read_with_its_sender_if_it_is_signed(kind: int) -> None:
    assert decode(text(signed(kind))) == decode("0x" + signed(kind).hex().upper()) == expected(kind)
    assert decode(text(unsigned(kind))) == replace(expected(kind), sender=None)
    # What is signed is the unsigned encoding.
    to_sign = serializable_unsigned_transaction_from_dict(fields(kind)).hash()
    assert keccak(decode(text(signed(kind))).unsigned) == to_sign
    assert decode(text(signed(kind))).blob_gas == (2 * 131_072 if kind == 3 else 0)


def test_a_transaction_without_a_receiver_creates_a_contract() -> None:
    read = decode(text(signed(2, to="", data="0x6000")))
    assert (read.to, read.data, read.sender) == (None, b"\x60\x00", SENDER)
    assert "to" not in read.call(SENDER)


def test_a_legacy_signature_of_before_eip_155_is_for_any_chain() -> None:
    transaction = {name: value for name, value in fields(0).items() if name != "chainId"}
    encoded = bytes(Account.sign_transaction(transaction, KEY).raw_transaction)
    items = items_of(encoded)
    assert items[6] in {b"\x1b", b"\x1c"}
    assert decode(text(encoded)) == replace(PLAIN, chain_id=None, unsigned=rlp.encode(items[:6]))


def test_a_legacy_transaction_of_six_fields_is_for_any_chain() -> None:
    encoded = encode(0, items_of(signed(0))[:6])
    assert decode(text(encoded)) == replace(PLAIN, chain_id=None, sender=None, unsigned=encoded)


def test_blobs_beside_a_transaction_change_nothing() -> None:
    assert decode(text(with_blobs(signed(3)))) == expected(3)
    # As nodes pass it on since Osaka: a version, and cell proofs.
    body = items_of(signed(3))
    assert decode(text(encode(3, [body, b"\x01", [], [], []]))) == expected(3)
    assert decode(text(encode(3, [body[:11], [], [], []]))) == replace(expected(3), sender=None)


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_omit_prices_nonce_and_the_limit_of_an_unsigned_transaction(kind: int) -> None:
    own: dict[int, dict[str, Any]] = {
        1: {"accessList": list(ACCESS_LIST)},
        3: {"blobVersionedHashes": [EMPTY_BLOB_HASH, EMPTY_BLOB_HASH]},
        4: {"authorizationList": list(expected(4).authorizations)},
    }
    own[2] = own[1]
    call = {"from": SENDER, "to": RECEIVER, "value": hex(10**18 + 1), "data": "0xfeed", **own.get(kind, {})}
    assert decode(text(unsigned(kind))).call(SENDER) == call
    assert decode(text(signed(kind))).call(SENDER) == call | {"gas": hex(50_000)}


@pytest.mark.parametrize(
    ("kind", "prices", "expected"),
    [
        (0, {"gasPrice": 0}, Prices(gas_price=0)),
        (2, {"maxFeePerGas": 0, "maxPriorityFeePerGas": 0}, Prices(max_fee=0, max_priority_fee=0)),
        (
            3,
            {"maxFeePerGas": 9, "maxPriorityFeePerGas": 9, "maxFeePerBlobGas": 0},
            Prices(max_fee=9, max_priority_fee=9, max_blob_fee=0),
        ),
    ],
)
def test_a_price_of_zero_is_one_if_it_is_signed_and_else_not_set(
    kind: int, prices: dict[str, int], expected: Prices
) -> None:
    assert decode(text(signed(kind, **prices))).prices == expected
    not_set = {name: price or None for name, price in vars(expected).items()}
    assert decode(text(unsigned(kind, **prices))).prices == Prices(**not_set)


def test_a_tip_above_the_maximum_is_refused() -> None:
    fault = "its maxPriorityFeePerGas is above its maxFeePerGas"
    for make in (signed, unsigned):
        assert why_not(make(2, maxFeePerGas=10, maxPriorityFeePerGas=11)) == fault
        assert decode(text(make(2, maxFeePerGas=10, maxPriorityFeePerGas=10))).prices.max_fee == 10
    # Zero is no maximum in what is not signed.
    assert decode(text(unsigned(2, maxFeePerGas=0, maxPriorityFeePerGas=1))).prices.max_priority_fee == 1
    assert why_not(signed(2, maxFeePerGas=0, maxPriorityFeePerGas=1)) == fault


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        *((sent, "it must start with 0x") for sent in ("", "02e4", "0X02e4", " 0x02e4")),
        *((sent, NOT_DIGITS) for sent in ("0x", "0x02e", "0x02 e4", "0x02e4\n", "0x0x02", "0xzz", "0x+1", "0x_1")),
        *((sent, NOT_DIGITS) for sent in ("0x\u0660\u0662", "0x\uff10\uff12", "0x\u00b2\u00b2")),
    ],
)
def test_what_is_not_written_in_hexadecimal_is_no_transaction(sent: str, reason: str) -> None:
    with pytest.raises(NotATransaction) as refused:
        decode(sent)
    assert str(refused.value) == reason


@pytest.mark.parametrize("first", [0x00, 0x05, 0xBF])
def test_another_type_is_refused(first: int) -> None:
    assert why_not(bytes([first]) + signed(2)[1:]) == "its type must be between 0 and 4"


@pytest.mark.parametrize("kind", KINDS)
def test_a_transaction_with_more_or_fewer_fields_is_refused(kind: int) -> None:
    items = items_of(signed(kind))
    for count in (1, FIELDS[kind] - 1, FIELDS[kind] + 1, FIELDS[kind] + 2):
        assert why_not(encode(kind, items[:count])) == NOT_ENCODED
    assert why_not(encode(kind, [*items, b""])) == NOT_ENCODED
    encoded = signed(kind)
    assert why_not(encoded + b"\x00") == NOT_ENCODED
    assert why_not(encoded[:-1]) == NOT_ENCODED
    assert why_not(bytes([*([kind] if kind else []), 0xC0])) == NOT_ENCODED


def test_a_transaction_of_very_many_parts_is_refused_before_it_is_read() -> None:
    items = items_of(unsigned(2))
    # The list of all, its nine fields, one entry, its address and its list of keys.
    most = 10_000 - 13
    items[8] = [[bytes(20), [bytes(32)] * most]]
    assert len(decode(text(encode(2, items))).access_list[0]["storageKeys"]) == most
    items[8] = [[bytes(20), [bytes(32)] * (most + 1)]]
    assert why_not(encode(2, items)) == "it has more than 10000 parts"
    assert why_not(b"\x02" + rlp.encode([b""] * 500_000)) == "it has more than 10000 parts"


@pytest.mark.parametrize("depth", [100, 5_000, 100_000])
def test_lists_in_lists_are_refused_however_deep(depth: int) -> None:
    assert why_not(nested_lists(depth)) == (NOT_ENCODED if depth < 10_000 else "it has more than 10000 parts")


@pytest.mark.parametrize(
    ("kind", "position", "value"),
    [
        (0, 0, b"\x00\x07"),  # not the shortest way to write 7
        (0, 3, b"\x01" * 21),
        (2, 6, []),
        (2, 7, [b"a list"]),
        (2, 8, b"no list"),
        (2, 8, [[b"\x01" * 20, [b"\x01" * 33]]]),
        (3, 10, [b"\x01" * 31]),
        (2, 8, [[b"\x01" * 20, [[b"\x01"] * 32]]]),
        (4, 9, [[[], b"\x01" * 20, b"", b"", b"\x01", b"\x01"]]),
    ],
)
def test_a_field_of_another_shape_is_refused(kind: int, position: int, value: Any) -> None:
    items = items_of(unsigned(kind))
    items[position] = value
    assert why_not(encode(kind, items)) == NOT_ENCODED


@pytest.mark.parametrize(
    ("kind", "position", "largest", "reason"),
    [
        # EIP-2681: the last number that fits is no nonce.
        (2, 1, 2**64 - 2, "its nonce is too large"),
        (0, 4, 2**256 - 1, "its value is too large"),
        (2, 0, 2**256 - 1, "its chainId is too large"),
        (2, 4, 2**64 - 1, "its gas is too large"),
    ],
)
def test_a_number_that_no_chain_has_is_refused(kind: int, position: int, largest: int, reason: str) -> None:
    items = items_of(unsigned(kind))
    items[position] = number(largest)
    decode(text(encode(kind, items)))
    items[position] = number(largest + 1)
    assert why_not(encode(kind, items)) == reason


@pytest.mark.parametrize(("position", "largest"), [(0, 2**256 - 1), (2, 2**64 - 1), (3, 255), (4, 2**256 - 1)])
def test_a_number_of_an_authorization_that_no_chain_has_is_refused(position: int, largest: int) -> None:
    items = items_of(unsigned(4))
    items[9][0][position] = number(largest)
    decode(text(encode(4, items)))
    items[9][0][position] = number(largest + 1)
    assert why_not(encode(4, items)) == "a field of an authorization is too large"


@pytest.mark.parametrize("kind", KINDS)
def test_the_higher_of_the_two_signatures_is_refused(kind: int) -> None:
    items = items_of(signed(kind))
    v, s = int.from_bytes(items[-3]), int.from_bytes(items[-1])
    # Another parity and another s: to the curve it is a signature of the same sender.
    flipped = v + 1 if v % 2 == (HARDHAT_CHAIN * 2 + 35) % 2 else v - 1
    items[-3] = number(flipped if kind == 0 else 1 - v)
    items[-1] = number(SECPK1_N - s)
    assert why_not(encode(kind, items)) == BAD_SIGNATURE


@pytest.mark.parametrize("kind", [0, 2])
@pytest.mark.parametrize(("r", "s"), [(0, 1), (1, 0), (SECPK1_N, 1), (2**256 - 1, 1)])
def test_numbers_that_are_no_signature_are_refused(kind: int, r: int, s: int) -> None:
    items = items_of(signed(kind))
    items[-2:] = [number(r), number(s)]
    assert why_not(encode(kind, items)) == BAD_SIGNATURE


@pytest.mark.parametrize(("kind", "v"), [(2, 2), *((0, v) for v in (0, 1, 26, 29, 34))])
def test_the_parity_of_a_signature_is_written_as_its_type_wants(kind: int, v: int) -> None:
    items = items_of(signed(kind))
    items[-3] = number(v)
    assert why_not(encode(kind, items)) == BAD_SIGNATURE


@pytest.mark.parametrize(
    ("kind", "position", "value", "fault"),
    [
        *((kind, 5, b"", "a transaction of this type must have a receiver") for kind in (3, 4)),
        (3, 10, [], "a transaction of type 3 must have a blob"),
        (3, 10, [b"\x02" + bytes(31)], "a blob hash must start with 01"),
        (4, 9, [], "a transaction of type 4 must have an authorization"),
    ],
)
def test_types_3_and_4_have_a_receiver_and_what_they_are_for(kind: int, position: int, value: Any, fault: str) -> None:
    items = items_of(unsigned(kind))
    items[position] = value
    assert why_not(encode(kind, items)) == fault


KEYS = st.integers(1, SECPK1_N - 1).map(lambda key: f"0x{key:064x}")
ADDRESSES = st.binary(min_size=20, max_size=20).map(to_checksum_address)
UINT64 = st.integers(0, 2**64 - 1)
UINT256 = st.integers(0, 2**256 - 1)
STORAGE = st.lists(st.integers(0, 2**256 - 1).map(lambda key: f"0x{key:064x}"), max_size=3)
ACCESS_LISTS = st.lists(st.fixed_dictionaries({"address": ADDRESSES, "storageKeys": STORAGE}), max_size=3)
BLOB_HASHES = st.lists(
    st.binary(min_size=31, max_size=31).map(lambda tail: f"0x01{tail.hex()}"), min_size=1, max_size=6
)


@given(
    kind=st.sampled_from([0, 1, 2, 3]),
    key=KEYS,
    common=st.fixed_dictionaries(
        {
            "chainId": st.integers(1, 2**64),
            "nonce": UINT64.filter(lambda nonce: nonce < 2**64 - 1),
            "gas": UINT64,
            "to": ADDRESSES,
            "value": UINT256,
            "data": st.binary(max_size=100),
        }
    ),
    access_list=ACCESS_LISTS,
    blob_hashes=BLOB_HASHES,
)
def test_whatever_eth_account_signs_is_read_as_it_was(
    kind: int, key: str, common: dict[str, Any], access_list: list[dict[str, Any]], blob_hashes: list[str]
) -> None:
    changes = common | ({"accessList": access_list} if kind else {})
    changes |= {"blobVersionedHashes": blob_hashes} if kind == 3 else {}
    transaction = fields(kind, **changes)
    account = Account.from_key(key)
    encoded = bytes(account.sign_transaction(transaction).raw_transaction)
    read = decode(text(encoded))
    assert read == Transaction(
        kind=kind,
        chain_id=common["chainId"],
        sender=account.address,
        to=common["to"],
        nonce=common["nonce"],
        value=common["value"],
        data=common["data"],
        gas=common["gas"],
        prices=expected(kind).prices,
        access_list=tuple(changes.get("accessList", ())),
        blob_hashes=tuple(changes.get("blobVersionedHashes", ())),
        authorizations=(),
        unsigned=read.unsigned,
    )
    assert keccak(read.unsigned) == serializable_unsigned_transaction_from_dict(transaction).hash()
    assert decode(text(read.unsigned)) == replace(read, sender=None)
