"""What the service would refuse, whatever the relayer: it is not stored."""

import re
from collections.abc import Mapping
from typing import Any, get_args

from relayer_client.addresses import check_address
from relayer_client.results import Speed

SPEEDS = get_args(Speed)
MAX_FEE, TIP = MAX_FEES = ("max_fee_per_gas", "max_priority_fee_per_gas")
# Of amounts, in bits.
SIZES = {"value": 256, "gas_limit": 63, "gas_price": 256, **dict.fromkeys(MAX_FEES, 256)}
TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*")
METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]{1,40}")
METADATA_PAIRS, METADATA_BYTES = 16, 2048
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,12})?(?:Z|[+-]\d\d:[0-5]\d)", re.ASCII | re.I)
AMOUNT = re.compile(r"(?:[0-9]{1,78}|0[xX][0-9a-fA-F]{1,64})")


def find_faults(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the fields of a request, by name; all amounts are text."""
    faults = {
        name: f"A whole number from 0 to 2^{bits} - 1 is required."
        for name, bits in SIZES.items()
        if name in fields and not _is_amount(fields[name], bits)
    }
    if "to" in fields:
        try:
            check_address(fields["to"])
        except ValueError as error:
            faults["to"] = str(error)
    elif fields.get("data", "0x") == "0x":
        faults["data"] = "A receiver (to) or data is required."
    if "valid_until" in fields and not TIME.fullmatch(str(fields["valid_until"])):
        faults["valid_until"] = "A time with its offset as in RFC 3339 is required."
    if fields.get("speed", SPEEDS[0]) not in SPEEDS:
        faults["speed"] = f"Use one of: {', '.join(SPEEDS)}."
    if not _is_text(fields.get("external_id", "-"), 255) or fields.get("external_id") == "":
        faults["external_id"] = "1 to 255 characters without control characters are required."
    if not _is_metadata(fields.get("metadata", {})):
        faults["metadata"] = (
            f"At most {METADATA_PAIRS} pairs and {METADATA_BYTES} bytes are allowed: keys of 1 to 40 letters, digits, "
            "dots, hyphens and underscores, and strings of at most 500 characters without control characters."
        )
    return faults or _find_price_faults(fields)


def _find_price_faults(fields: Mapping[str, Any]) -> dict[str, str]:
    has_max_fees = [name in fields for name in MAX_FEES]
    if any(has_max_fees) and not all(has_max_fees):
        return {MAX_FEE: f"{' and '.join(MAX_FEES)} are required together."}
    if sum(("speed" in fields, "gas_price" in fields, any(has_max_fees))) > 1:
        return {"speed": "Only one of speed, gas_price and the maximum fees can be set."}
    if all(has_max_fees) and _number(fields[TIP]) > _number(fields[MAX_FEE]):
        return {TIP: f"It must not be above {MAX_FEE}."}
    return {}


def _is_text(value: Any, length: int) -> bool:
    return isinstance(value, str) and len(value) <= length and TEXT.fullmatch(value) is not None


def _is_metadata(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) <= METADATA_PAIRS
        and all(METADATA_KEY.fullmatch(name) and _is_text(text, 500) for name, text in value.items())
        and sum(len(text.encode()) for pair in value.items() for text in pair) <= METADATA_BYTES
    )


def _is_amount(text: Any, bits: int) -> bool:
    return bool(AMOUNT.fullmatch(str(text))) and _number(text) < 2**bits


def _number(text: str) -> int:
    return int(text, 16 if text[1:2] in ("x", "X") else 10)
