"""Encoding: of a transaction to sign, and of one before all its fields are known, for charges by its size."""

from dataclasses import dataclass

import rlp
from eth_utils.crypto import keccak
from rlp.sedes import big_endian_int

from chain.transactions.model import CHAIN_V, DYNAMIC_FEE, FIELDS, LEGACY, PLAIN_V, Prices, Transaction

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


@dataclass(frozen=True)
class Draft:
    """A transaction to sign: legacy with EIP-155 if it has a gas price, else EIP-1559."""

    chain_id: int
    nonce: int
    # Empty to create a contract.
    to: str
    value: int
    data: bytes
    gas: int
    prices: Prices

    @property
    def unsigned(self) -> bytes:
        return self._encode([big_endian_int.serialize(self.chain_id), b"", b""] if self._is_legacy else [])

    @property
    def digest(self) -> bytes:
        """What its signature signs."""
        return bytes(keccak(self.unsigned))

    def signed(self, recovery_id: int, r: int, s: int) -> bytes:
        """Return the encoding to broadcast."""
        v = CHAIN_V + 2 * self.chain_id + recovery_id if self._is_legacy else recovery_id
        return self._encode([big_endian_int.serialize(number) for number in (v, r, s)])

    @property
    def _is_legacy(self) -> bool:
        return self.prices.gas_price is not None

    def _encode(self, signature: list[bytes]) -> bytes:
        kind = LEGACY if self._is_legacy else DYNAMIC_FEE
        values: dict[str, object] = {
            "chainId": self.chain_id,
            "nonce": self.nonce,
            "gasPrice": self.prices.gas_price,
            "maxPriorityFeePerGas": self.prices.max_priority_fee,
            "maxFeePerGas": self.prices.max_fee,
            "gas": self.gas,
            "to": bytes.fromhex(self.to.removeprefix("0x")),
            "value": self.value,
            "data": self.data,
            "accessList": [],
        }
        items = [sedes.serialize(values[name]) for name, sedes in FIELDS[kind].items()]
        return (bytes([kind]) if kind else b"") + bytes(rlp.encode([*items, *signature], infer_serializer=False))


def transaction_hash(raw: bytes) -> str:
    return f"0x{keccak(raw).hex()}"
