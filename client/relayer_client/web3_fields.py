"""Transactions and typed data of web3.py as those of the service."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from relayer_client.fields import TransactionFields, TypedDataFields

Prices = Literal["service", "transaction"]
Nonces = Literal["refuse", "replace"]

NAMES = {
    "to": "to",
    "value": "value",
    "data": "data",
    "input": "data",
    "gas": "gas_limit",
    "gasPrice": "gas_price",
    "maxFeePerGas": "max_fee_per_gas",
    "maxPriorityFeePerGas": "max_priority_fee_per_gas",
    "speed": "speed",
    "valid_until": "valid_until",
    "external_id": "external_id",
    "metadata": "metadata",
}
PRICES = frozenset({"gasPrice", "maxFeePerGas", "maxPriorityFeePerGas"})
# The service chooses the type; web3.py has compared the chain ID with that of the node. The rest are not fields.
NO_FIELDS = frozenset({"from", "type", "chainId", "nonce", "idempotency_key"})
TYPED_DATA_NAMES = {"types": "types", "domain": "domain", "message": "message", "primaryType": "primary_type"}


def transaction_fields(transaction: Mapping[str, Any], prices: Prices) -> TransactionFields:
    """Return the fields to send; raise `ValueError` for those that the service does not accept."""
    if unknown := sorted(name for name, value in transaction.items() if value and name not in {*NAMES, *NO_FIELDS}):
        reason = "the service does not send them"
        raise ValueError(f"A transaction of a relayer cannot have {', '.join(unknown)}: {reason}. Remove them.")
    ignored = frozenset() if prices == "transaction" and not transaction.get("speed") else PRICES
    fields = {NAMES[name]: _plain(transaction[name]) for name in transaction if name in NAMES.keys() - ignored}
    # web3.py creates contracts with an empty receiver.
    return {name: value for name, value in fields.items() if not (name == "to" and value in ("", "0x"))}  # type: ignore[return-value]  # the names are those of NAMES


def typed_data_fields(data: Mapping[str, Any] | str) -> TypedDataFields:
    """Return the fields to sign, of typed data as in `eth_signTypedData_v4`: a mapping or its JSON."""
    full = json.loads(data) if isinstance(data, str) else data
    return {field: full[name] for name, field in TYPED_DATA_NAMES.items() if name in full}  # type: ignore[return-value]  # the names are those of TYPED_DATA_NAMES


def to_bytes(message: str | bytes) -> bytes:
    """Return the bytes to sign, of a message as in `personal_sign`: hexadecimal, or else text."""
    if isinstance(message, str):
        return bytes.fromhex(message[2:]) if message.startswith("0x") else message.encode()
    return message


def _plain(value: Any) -> Any:
    return hexadecimal(value) if isinstance(value, bytes) else value


def hexadecimal(value: Any) -> str:
    """Return a hash or an address in hexadecimal and lower case."""
    return f"0x{value.hex().removeprefix('0x')}" if isinstance(value, bytes) else str(value).lower()
