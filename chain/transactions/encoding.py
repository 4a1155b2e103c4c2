"""Encoding of a transaction before all its fields are known, for charges by its size."""

import rlp
from eth_utils.crypto import keccak
from rlp.sedes import big_endian_int

from chain.transactions.model import CHAIN_V, FIELDS, LEGACY, PLAIN_V, Transaction

# As long as typical values, and not compressible.
PLACEHOLDERS = {
    "nonce": bytes.fromhex("2d9b"),
    "gas": bytes.fromhex("03f27c"),
    "gasPrice": bytes.fromhex("51b86e17"),
    "maxPriorityFeePerGas": bytes.fromhex("0f93a6"),
    "maxFeePerGas": bytes.fromhex("51b86e17"),
}
SIGNATURE = [keccak(text="r"), keccak(text="s")]


def encode_with_placeholders(transaction: Transaction, *, with_signature: bool = False) -> bytes:
    """Return the encoding with placeholders for blank fields, of which a signed transaction has none."""
    prefix = transaction.unsigned[:1] if transaction.kind else b""
    items = rlp.decode(transaction.unsigned[len(prefix) :])
    placeholders = {} if transaction.is_signed else PLACEHOLDERS
    filled = [items[at] or placeholders.get(name, items[at]) for at, name in enumerate(FIELDS[transaction.kind])]
    rest = [_placeholder_v(transaction), *SIGNATURE] if with_signature else items[len(filled) :]
    return bytes(prefix + rlp.encode([*filled, *rest]))


def _placeholder_v(transaction: Transaction) -> bytes:
    """Return the v of a signature, which is longer if it contains the chain ID."""
    if transaction.kind != LEGACY:
        return b"\x01"
    v = PLAIN_V if transaction.chain_id is None else CHAIN_V + 2 * transaction.chain_id
    return bytes(big_endian_int.serialize(v))
