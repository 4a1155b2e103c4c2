"""Why a chain refuses to execute a transaction, in words."""

from __future__ import annotations

import logging
import unicodedata
from typing import Any

from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_utils.hexadecimal import decode_hex

from relayers.chain.answers import ChainError
from rpc.errors import ExecutionReverted, InsufficientData, RpcError

logger = logging.getLogger(__name__)

# The selectors of `Error(string)` and `Panic(uint256)`, with which Solidity tells why.
ERROR = bytes.fromhex("08c379a0")
PANIC = bytes.fromhex("4e487b71")
PANICS = {
    0x01: "an assertion failed",
    0x11: "an arithmetic operation overflowed",
    0x12: "a division by zero",
    0x21: "a value that the enumeration does not have",
    0x22: "a storage array is encoded wrongly",
    0x31: "an empty array was popped",
    0x32: "an index is out of bounds",
    0x41: "too much memory was asked for",
    0x51: "an internal function that is not set was called",
}
LONGEST_REASON = 200
# Control characters and marks that cannot be seen, and the two that end a line or a paragraph.
UNPRINTABLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# How nodes begin to say what they find, and what it means.
REFUSALS = {
    "insufficient funds": "the sender's balance does not cover the transaction's value",
    "enough funds": "the sender's balance does not cover the transaction's value",
    "insufficient balance": "the sender's balance does not cover the transaction's value",
    "gas required exceeds": "it needs more gas than it may use",
    "out of gas": "it needs more gas than it may use",
    "intrinsic gas": "it needs more gas than it may use",
    "exceeds block gas limit": "it needs more gas than a block has",
    "stack underflow": "its code is not valid",
    "invalid opcode": "its code is not valid",
    "invalid jump": "its code is not valid",
}


def in_words(error: ChainError) -> RpcError:
    """Say why the chain refused; what the node says itself is not passed on, but for the reason of a contract."""
    words = error.message.lower()
    data = _data(error.data)
    if data or error.is_revert:
        return ExecutionReverted(f"The transaction would be reverted: {reason(data)}.")
    for sign, meaning in REFUSALS.items():
        if sign in words:
            return ExecutionReverted(f"The transaction cannot be executed: {meaning}.")
    logger.warning("A node refused to estimate the gas of a transaction: %s %s", error.code, _printable(error.message))
    return InsufficientData("The node refused to estimate the gas of the transaction.")


def reason(data: bytes) -> str:
    """Decode why a contract reverted."""
    selector, arguments = data[:4], data[4:]
    try:
        if selector == ERROR:
            (text,) = abi_decode(["string"], arguments)
            return f'"{_printable(text)}"'
        if selector == PANIC:
            (code,) = abi_decode(["uint256"], arguments)
            return f"panic 0x{code:02x}, {PANICS[code]}" if code in PANICS else f"panic 0x{code:02x}"
    except (DecodingError, ValueError, OverflowError):
        return "for a reason that cannot be decoded"
    if len(selector) == len(ERROR):
        return f"with the contract's error 0x{selector.hex()}"
    return "without a reason"


def _data(data: Any) -> bytes:
    """Find the bytes that a contract reverted with, where nodes put them."""
    if isinstance(data, dict):
        data = data.get("data")
    # Nethermind puts a word in front.
    data = data.removeprefix("Reverted ") if isinstance(data, str) else ""
    if not data.startswith("0x"):
        return b""
    try:
        return decode_hex(data)
    except ValueError:
        return b""


def _printable(text: str) -> str:
    """Keep what a contract says to one short line."""
    shown = "".join(character for character in text if unicodedata.category(character) not in UNPRINTABLE)
    return shown if len(shown) <= LONGEST_REASON else f"{shown[:LONGEST_REASON]}…"
