"""Transactions of web3.py as those of the service."""

from collections.abc import Mapping
from typing import Any

from relayer_client.fields import TransactionFields

NAMES = {
    "to": "to",
    "value": "value",
    "data": "data",
    "input": "data",
    "gas": "gas_limit",
    "gasPrice": "gas_price",
    "maxFeePerGas": "max_fee_per_gas",
    "maxPriorityFeePerGas": "max_priority_fee_per_gas",
}
# The service chooses them; web3.py has compared the chain ID with that of the node.
IGNORED = frozenset({"from", "type", "chainId"})


def transaction_fields(transaction: Mapping[str, Any]) -> TransactionFields:
    """Return the fields to send; raise `ValueError` for those that the service does not accept."""
    if unknown := sorted(set(transaction) - set(NAMES) - IGNORED):
        reason = "the service assigns nonces" if unknown == ["nonce"] else "the service does not send them"
        raise ValueError(f"A transaction of a relayer cannot have {', '.join(unknown)}: {reason}. Remove them.")
    fields = {NAMES[name]: _plain(value) for name, value in transaction.items() if name in NAMES}
    # web3.py creates contracts with an empty receiver.
    return {name: value for name, value in fields.items() if not (name == "to" and value in ("", "0x"))}  # type: ignore[return-value]  # the names are those of NAMES


def _plain(value: Any) -> Any:
    return hexadecimal(value) if isinstance(value, bytes) else value


def hexadecimal(value: Any) -> str:
    """Return a hash or an address in hexadecimal and lower case."""
    return f"0x{value.hex().removeprefix('0x')}" if isinstance(value, bytes) else str(value).lower()
