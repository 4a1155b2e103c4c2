"""The gas that a transaction needs, and the reason if the chain would not execute it."""

import logging
import unicodedata
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_utils.hexadecimal import decode_hex

from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fees.fee_history import Market
from chain.nodes.answers import ChainError

logger = logging.getLogger(__name__)

# The selectors of Solidity's `Error(string)` and `Panic(uint256)`.
ERROR = bytes.fromhex("08c379a0")
PANIC = bytes.fromhex("4e487b71")
PANICS = {
    0x01: "assertion failed",
    0x11: "arithmetic overflow",
    0x12: "division by zero",
    0x21: "invalid enum value",
    0x22: "invalid encoding of a storage array",
    0x31: "pop of an empty array",
    0x32: "index out of bounds",
    0x41: "too much memory allocated",
    0x51: "call of an unset internal function",
}
NO_FUNDS = "the sender's balance does not cover the transaction's value"
MAX_REASON_LENGTH = 200
# Control and format characters, line and paragraph separators.
UNPRINTABLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# Parts of nodes' messages, and what they mean.
REFUSALS = {
    "insufficient funds": NO_FUNDS,
    "enough funds": NO_FUNDS,
    "insufficient balance": NO_FUNDS,
    "gas required exceeds": "it needs more gas than its limit",
    "out of gas": "it needs more gas than its limit",
    "intrinsic gas": "it needs more gas than its limit",
    "exceeds block gas limit": "it needs more gas than a block's limit",
    "greater than the cap": "its gas limit is above that of the network",
    "stack underflow": "its code is invalid",
    "invalid opcode": "its code is invalid",
    "invalid jump": "its code is invalid",
}


@dataclass(frozen=True)
class GasEstimate:
    """The gas that a transaction needs, and the market if the node reports it with the gas."""

    gas: int
    market: Market | None = None


def estimate(answer: Any, gas: int | None) -> GasEstimate:
    """Return the estimate of an answer, with the gas that was read from it; raise a `ChainFault` if it has none."""
    if isinstance(answer, ChainError):
        raise refusal(answer)
    if not gas:
        raise InsufficientData("The node did not report the gas of the transaction.")
    return GasEstimate(gas)


def refusal(error: ChainError) -> ChainFault:
    """Return the error for a client: of the node's message, it contains only the contract's reason."""
    message = error.message.lower()
    data = _data(error.data)
    if data or error.is_revert:
        return ExecutionReverted(f"The transaction would revert: {reason(data)}.", data)
    for part, meaning in REFUSALS.items():
        if part in message:
            words = f"The transaction cannot be executed: {meaning}."
            return ExecutionReverted(words, is_unfunded=meaning == NO_FUNDS)
    logger.warning("A node refused to estimate the gas of a transaction: %s %s", error.code, _printable(error.message))
    return InsufficientData("The node refused to estimate the gas of the transaction.")


def reason(data: bytes) -> str:
    """Return the reason of a revert."""
    selector, arguments = data[:4], data[4:]
    try:
        if selector == ERROR:
            (text,) = abi_decode(["string"], arguments)
            return f'"{_printable(text)}"'
        if selector == PANIC:
            (code,) = abi_decode(["uint256"], arguments)
            return f"panic 0x{code:02x}, {PANICS[code]}" if code in PANICS else f"panic 0x{code:02x}"
    except (DecodingError, ValueError, OverflowError):
        return "undecodable reason"
    if len(selector) == len(ERROR):
        return f"custom error 0x{selector.hex()}"
    return "no reason given"


def _data(data: Any) -> bytes:
    """Return the bytes that a contract reverted with; nodes place them differently."""
    if isinstance(data, dict):
        data = data.get("data")
    # Nethermind adds a prefix.
    data = data.removeprefix("Reverted ") if isinstance(data, str) else ""
    if not data.startswith("0x"):
        return b""
    try:
        return decode_hex(data)
    except ValueError:
        return b""


def _printable(text: str) -> str:
    """Return a text as one short line."""
    shown = "".join(character for character in text if unicodedata.category(character) not in UNPRINTABLE)
    return shown if len(shown) <= MAX_REASON_LENGTH else f"{shown[:MAX_REASON_LENGTH]}…"
