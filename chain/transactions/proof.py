"""The signed transaction that a block's entry describes: its signature proves who sent it, whatever the node says."""

from collections.abc import Mapping
from typing import Any

import rlp
from rlp.exceptions import RLPException
from rlp.sedes import Binary, CountableList, List

from chain.transactions.decoding import SIGNED_FIELDS, decode
from chain.transactions.encoding import transaction_hash
from chain.transactions.model import AUTHORIZATION, Transaction


def recover(entry: Mapping[str, Any]) -> Transaction | None:
    """Return the transaction of an entry, with the sender that signed it; None unless its hash matches its fields.

    Entries without a signature, such as deposits of the OP stack, describe none.
    """
    try:
        kind = int(entry.get("type") or "0x0", 16)
        # The parity of typed transactions is in `yParity`, and in `v` of older nodes.
        values = {**entry, "data": entry["input"], "v": (entry.get("yParity") if kind else None) or entry.get("v")}
        items = [sedes.serialize(_value(sedes, values[name])) for name, sedes in SIGNED_FIELDS[kind].items()]
        raw = (bytes([kind]) if kind else b"") + bytes(rlp.encode(items))
        return decode(f"0x{raw.hex()}") if transaction_hash(raw) == entry["hash"].lower() else None
    except (AttributeError, LookupError, TypeError, ValueError, RLPException):
        return None


def _value(sedes: Any, value: Any) -> Any:
    """Return a value of JSON-RPC as its RLP type has it."""
    if isinstance(sedes, Binary):
        return bytes.fromhex((value or "0x")[2:])
    if isinstance(sedes, CountableList):
        return [_value(sedes.element_sedes, part) for part in value]
    if isinstance(sedes, List):
        names = AUTHORIZATION if "nonce" in value else ("address", "storageKeys")
        return [_value(part, value[name]) for name, part in zip(names, sedes, strict=True)]
    return int(value, 16)
