"""Decoding of transactions."""

from typing import Any

import rlp
from eth_keys.constants import SECPK1_N
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError
from rlp.codec import consume_length_prefix
from rlp.exceptions import RLPException
from rlp.sedes import CountableList, List, big_endian_int

from chain.transactions.model import (
    AUTHORIZATION,
    BLOB,
    CHAIN_V,
    FIELDS,
    LEGACY,
    PLAIN_V,
    SET_CODE,
    NotATransaction,
    Prices,
    Transaction,
)
from relayer_service.evm import checksummed

SIGNED_FIELDS = {kind: {**fields, **dict.fromkeys("vrs", big_endian_int)} for kind, fields in FIELDS.items()}
# The lowest first byte of an RLP list; types of EIP-2718 are below.
RLP_LIST = 0xC0
# EIP-2681 limits nonces.
MAX_VALUES = {"nonce": 2**64 - 2, "gas": 2**64 - 1, "yParity": 2**8 - 1}
MAX_INTEGER = 2**256 - 1
# EIP-7702: an authorization with the last nonce is void, but the transaction is valid.
AUTHORIZATION_MAX_VALUES = {**MAX_VALUES, "nonce": 2**64 - 1}
# EIP-4844: the first byte of a blob hash.
BLOB_HASH_VERSION = 1
# Fields and list items: far more than a block has gas for.
MAX_PARTS = 10_000
NOT_ENCODED = "it is not an encoded transaction"


def decode(text: str) -> Transaction:
    """Return the transaction of a 0x-prefixed hexadecimal string."""
    if not text.startswith("0x"):
        raise NotATransaction("it must start with 0x")
    try:
        # `fromhex` alone would skip spaces.
        encoded = bytes.fromhex(text[2:]) if text[2:].isalnum() else b""
    except ValueError:
        encoded = b""
    if not encoded:
        raise NotATransaction("it must have an even number of hexadecimal digits")
    try:
        return _decode(encoded)
    except (RLPException, RecursionError, IndexError):
        raise NotATransaction(NOT_ENCODED) from None


def _decode(encoded: bytes) -> Transaction:
    if encoded[0] >= RLP_LIST:
        return _legacy(_items(encoded))
    if encoded[0] not in FIELDS or encoded[0] == LEGACY:
        raise NotATransaction("its type must be between 0 and 4")
    items = _items(encoded[1:])
    if encoded[0] == BLOB and items and isinstance(items[0], list):
        # With its blobs, as it is sent between nodes: they do not affect the fee.
        items = items[0]
        encoded = encoded[:1] + rlp.encode(items)
    return _typed(encoded[0], items, encoded)


def _items(payload: bytes) -> list[Any]:
    _check_parts(payload)
    items = rlp.decode(payload)
    if not isinstance(items, list):
        raise NotATransaction(NOT_ENCODED)
    return items


def _check_parts(payload: bytes) -> None:
    """Reject many small parts, which would take long to decode, and deeply nested lists."""
    position = parts = 0
    while position < len(payload):
        _, kind, length, start = consume_length_prefix(payload, position)
        position = start if kind is list else start + length
        parts += 1
        if parts > MAX_PARTS:
            raise NotATransaction(f"it has more than {MAX_PARTS} parts")


def _legacy(items: list[Any]) -> Transaction:
    count = len(FIELDS[LEGACY])
    if len(items) == count:
        return _transaction(LEGACY, _values(FIELDS[LEGACY], items), None, None, rlp.encode(items))
    values = _values(SIGNED_FIELDS[LEGACY], items)
    v, r, s = (values[name] for name in "vrs")
    if r == s == 0:
        # EIP-155: unsigned, with the chain ID in place of the signature.
        return _transaction(LEGACY, values, v, None, rlp.encode(items))
    if v in {PLAIN_V, PLAIN_V + 1}:
        unsigned, chain_id, parity = rlp.encode(items[:count]), None, v - PLAIN_V
    elif v >= CHAIN_V:
        chain_id, parity = divmod(v - CHAIN_V, 2)
        unsigned = rlp.encode([*items[:count], big_endian_int.serialize(chain_id), b"", b""])
    else:
        raise NotATransaction("its signature is invalid")
    return _transaction(LEGACY, values, chain_id, _sender(unsigned, parity, r, s), unsigned)


def _typed(kind: int, items: list[Any], encoded: bytes) -> Transaction:
    count = len(FIELDS[kind])
    if len(items) == count:
        values = _values(FIELDS[kind], items)
        return _transaction(kind, values, values["chainId"], None, encoded)
    values = _values(SIGNED_FIELDS[kind], items)
    unsigned = bytes([kind]) + rlp.encode(items[:count])
    sender = _sender(unsigned, values["v"], values["r"], values["s"])
    return _transaction(kind, values, values["chainId"], sender, unsigned)


def _values(fields: dict[str, Any], items: list[Any]) -> dict[str, Any]:
    sedes = List(fields.values())
    # The library decodes an empty list as zero.
    if not _has_shape(sedes, items):
        raise NotATransaction(NOT_ENCODED)
    values = dict(zip(fields, sedes.deserialize(items), strict=True))
    for name, value in values.items():
        if isinstance(value, int) and value > MAX_VALUES.get(name, MAX_INTEGER):
            raise NotATransaction(f"its {name} is too large")
    return values


def _has_shape(sedes: Any, item: Any) -> bool:
    """Return whether an item has lists of the right length where they are expected, and bytes elsewhere."""
    if isinstance(sedes, CountableList):
        return isinstance(item, list) and all(_has_shape(sedes.element_sedes, part) for part in item)
    if isinstance(sedes, list):
        return isinstance(item, list) and len(item) == len(sedes) and all(map(_has_shape, sedes, item))
    return isinstance(item, bytes)


def _sender(unsigned: bytes, parity: int, r: int, s: int) -> str:
    # EIP-2: only the lower s is valid.
    if s > SECPK1_N // 2:
        raise NotATransaction("its signature is invalid")
    try:
        signature = Signature(vrs=(parity, r, s))
        return signature.recover_public_key_from_msg_hash(keccak(unsigned)).to_checksum_address()
    except (BadSignature, ValidationError):
        raise NotATransaction("its signature is invalid") from None


def _transaction(
    kind: int, values: dict[str, Any], chain_id: int | None, sender: str | None, unsigned: bytes
) -> Transaction:
    blob_hashes = values.get("blobVersionedHashes", ())
    authorizations = values.get("authorizationList", ())
    if kind in {BLOB, SET_CODE} and not values["to"]:
        raise NotATransaction("a transaction of this type must have a receiver")
    if kind == BLOB and not blob_hashes:
        raise NotATransaction("a transaction of type 3 must have a blob")
    if any(blob_hash[0] != BLOB_HASH_VERSION for blob_hash in blob_hashes):
        raise NotATransaction("a blob hash must start with 01")
    if kind == SET_CODE and not authorizations:
        raise NotATransaction("a transaction of type 4 must have an authorization")
    prices = Prices.from_values(values, is_signed=sender is not None)
    if prices.max_fee is not None and (prices.max_priority_fee or 0) > prices.max_fee:
        raise NotATransaction("its maxPriorityFeePerGas is above its maxFeePerGas")
    return Transaction(
        kind=kind,
        chain_id=chain_id,
        sender=sender,
        to=checksummed(values["to"]) if values["to"] else None,
        nonce=values["nonce"],
        value=values["value"],
        data=values["data"],
        gas=values["gas"],
        prices=prices,
        access_list=tuple(
            {"address": checksummed(address), "storageKeys": [f"0x{key:064x}" for key in storage]}
            for address, storage in values.get("accessList", ())
        ),
        blob_hashes=tuple(f"0x{blob_hash.hex()}" for blob_hash in blob_hashes),
        authorizations=tuple(_authorization(each) for each in authorizations),
        unsigned=unsigned,
    )


def _authorization(authorization: Any) -> dict[str, str]:
    values = dict(zip(AUTHORIZATION, authorization, strict=True))
    numbers = {name: value for name, value in values.items() if name != "address"}
    if any(value > AUTHORIZATION_MAX_VALUES.get(name, MAX_INTEGER) for name, value in numbers.items()):
        raise NotATransaction("a field of an authorization is too large")
    return {name: checksummed(value) if name == "address" else hex(value) for name, value in values.items()}
