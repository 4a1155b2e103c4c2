"""The gas that a transaction needs, by `eth_estimateGas`, and why the chain would not execute it, in words."""

import logging
import unicodedata
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError
from eth_utils.hexadecimal import decode_hex

from chain.answers import ChainError, quantity
from chain.attempts import Call
from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fee_history import Market
from chain.readings import ChainReading
from chain.transactions import Transaction

logger = logging.getLogger(__name__)

# The selectors of `Error(string)` and `Panic(uint256)`, in which Solidity encodes a reason.
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
MAX_REASON_LENGTH = 200
# Control characters, invisible marks, and the separators of lines and paragraphs.
UNPRINTABLE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
# What nodes' messages contain, and what it means.
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


@dataclass(frozen=True)
class GasEstimate:
    """The gas that a transaction needs, and the market where the node names it with the gas."""

    gas: int
    market: Market | None = None


def reading(transaction: Transaction, sender: str) -> ChainReading:
    return ChainReading([Call("eth_estimateGas", [transaction.call(sender)])], _read)


def _read(answers: list[Any]) -> GasEstimate:
    (answer,) = answers
    return estimate(answer, quantity(answer))


def estimate(answer: Any, gas: int | None) -> GasEstimate:
    """Return what an answer says, with the gas that was read from it; raise why it says nothing."""
    if isinstance(answer, ChainError):
        raise refusal(answer)
    if not gas:
        raise InsufficientData("The node did not say how much gas the transaction needs.")
    return GasEstimate(gas)


def refusal(error: ChainError) -> ChainFault:
    """Return why the chain refused; of the node's own words, only the contract's reason is passed on."""
    message = error.message.lower()
    data = _data(error.data)
    if data or error.is_revert:
        return ExecutionReverted(f"The transaction would be reverted: {reason(data)}.")
    for sign, meaning in REFUSALS.items():
        if sign in message:
            return ExecutionReverted(f"The transaction cannot be executed: {meaning}.")
    logger.warning("A node refused to estimate the gas of a transaction: %s %s", error.code, _printable(error.message))
    return InsufficientData("The node refused to estimate the gas of the transaction.")


def reason(data: bytes) -> str:
    """Return why a contract reverted, decoded from its data."""
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
    """Return the bytes that a contract reverted with, from wherever the node put them."""
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
    """Return a text as one short line."""
    shown = "".join(character for character in text if unicodedata.category(character) not in UNPRINTABLE)
    return shown if len(shown) <= MAX_REASON_LENGTH else f"{shown[:MAX_REASON_LENGTH]}…"
