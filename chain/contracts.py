"""Contract calls: encoding them, and decoding the values that they return."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from eth_abi.abi import decode as abi_decode
from eth_abi.abi import encode as abi_encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak
from eth_utils.hexadecimal import decode_hex

from chain.nodes.attempts import Call


class Unreadable(Exception):
    """A contract did not return values of the expected types."""


def contract_call(address: str, signature: str, arguments: Sequence[Any] = ()) -> Call:
    """Return a call of a function, such as `balanceOf(address)`, on the latest block."""
    return _call(address, signature, arguments) if arguments else _getter(address, signature)


@lru_cache(maxsize=10_000)
def _getter(address: str, signature: str) -> Call:
    # The same object each time: readings that share a call make it once.
    return _call(address, signature, ())


def _call(address: str, signature: str, arguments: Sequence[Any]) -> Call:
    types = signature[signature.index("(") + 1 : -1]
    data = keccak(text=signature)[:4] + abi_encode(types.split(",") if types else [], arguments)
    return Call("eth_call", [{"to": address, "data": f"0x{data.hex()}"}, "latest"])


def read_call(answer: Any, types: Sequence[str]) -> tuple[Any, ...]:
    if not isinstance(answer, str):
        raise Unreadable
    try:
        return abi_decode(types, decode_hex(answer))
    except (DecodingError, ValueError, TypeError, OverflowError):
        raise Unreadable from None
