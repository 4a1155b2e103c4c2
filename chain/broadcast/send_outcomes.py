"""What a node's answer to `eth_sendRawTransaction` means, by its words.

Clients use the same error codes for all of this, so that the code alone says nothing.
"""

import re
from dataclasses import dataclass
from typing import Any

from chain.broadcast.send_texts import TEXTS, Hint, Outcome
from chain.nodes.answers import RATE_LIMIT_CODES, WRONG_CHAIN_PAUSE_SECONDS, Fault, rate_limited

MAX_ERROR_LENGTH = 200
# Far longer than any message of a client; a revert reason can have any length.
MAX_MATCHED_LENGTH = 4_000
URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://\S*", re.IGNORECASE)
# The minimum of a replacement (Hardhat), of the gas price (Mantle, Metis) or of the tip (Geth).
MINIMUM_PRICE = re.compile(r"\b(?:at least|minimum needed):?(?: tx\.gasprice =)? (\d{1,30})\b")
# Reverts come before everything else, as a contract chooses their words, which may match any row.
REVERTED = re.compile(r"execution reverted|\brevert(?:ed)?\b|invalid opcode|vm exception while processing transaction")
# How Cosmos chains name the nonces of the transaction and of the account.
TRANSACTION_NONCE = re.compile(r"\bgot (\d{1,20})\b")
ACCOUNT_NONCE = re.compile(r"\bexpected (\d{1,20})\b")


@dataclass(frozen=True)
class Broadcast:
    """The outcome for one signed transaction."""

    outcome: Outcome
    # The node's words, shortened and without URLs; empty if it accepted.
    error: str = ""
    # The minimum price that the node named, in wei.
    minimum_price: int | None = None
    # Whether every node answered, and none may accept it later: their words have no class, or are a fee cap or final.
    is_rejected_by_all: bool = False


@dataclass(frozen=True)
class NodeReply:
    """The outcome at one node, and its fault if it is the node that failed and not the transaction."""

    broadcast: Broadcast
    fault: Fault | None = None

    @property
    def outcome(self) -> Outcome:
        return self.broadcast.outcome


def _letters(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


ROWS = [(_letters(text), meaning) for _, text, meaning, _ in TEXTS]
PRICE_OUTCOMES = {Outcome.UNDERPRICED, Outcome.REPLACEMENT_UNDERPRICED}


def judge_result(result: Any, expected_hash: str) -> NodeReply:
    """Return the reply for a result: a node that accepts a transaction returns its hash."""
    if isinstance(result, str) and result.lower() == expected_hash:
        return NodeReply(Broadcast(Outcome.ACCEPTED))
    return failed(Fault("returned another hash than the transaction's"))


def judge_error(error: Any, expected_hash: str, retry_after: str = "") -> NodeReply:
    """Return the reply for the `error` of an answer, whatever its shape."""
    fields = error if isinstance(error, dict) else {"message": error}
    code, data = fields.get("code"), fields.get("data")
    # Some providers wrap the error of a client in their own.
    wrapped = data.get("message") if isinstance(data, dict) else data
    messages = [
        text[:MAX_MATCHED_LENGTH].lower() for text in (fields.get("message"), wrapped) if isinstance(text, str)
    ]
    found = ((meaning, text) for text in messages if (meaning := _meaning(text)) is not None)
    meaning, text = next(found, (None, ""))
    hashes = {str(data.get(name)).lower() for name in ("txHash", "hash")} if isinstance(data, dict) else set()
    if (meaning is None or REVERTED.search(text)) and expected_hash in hashes:
        # Hardhat and Ganache report this way that a transaction which they have mined failed.
        return NodeReply(Broadcast(Outcome.ACCEPTED))
    outcome = meaning if isinstance(meaning, Outcome) else Outcome.UNKNOWN
    minimum = MINIMUM_PRICE.search(text) if outcome in PRICE_OUTCOMES else None
    fault = _fault(meaning, code, retry_after)
    return NodeReply(Broadcast(outcome, _words(fields.get("message")), int(minimum[1]) if minimum else None), fault)


def _meaning(text: str) -> Outcome | Hint | None:
    """Return the class of a message in lower case, or None if it has none."""
    if REVERTED.search(text):
        return Outcome.REFUSED
    # "Unknown transaction" must not match "known transaction".
    letters = _letters(text).replace("unknown", "")
    found = next((meaning for words, meaning in ROWS if words in letters), None)
    return _compare_nonces(text) if found is Hint.NONCE_MISMATCH else found


def _compare_nonces(text: str) -> Outcome | None:
    """Return whether the nonce of the transaction is below or above the expected one."""
    got, expected = TRANSACTION_NONCE.search(text), ACCOUNT_NONCE.search(text)
    if got is None or expected is None or int(got[1]) == int(expected[1]):
        return None
    return Outcome.NONCE_TOO_LOW if int(got[1]) < int(expected[1]) else Outcome.NONCE_TOO_HIGH


def failed(fault: Fault) -> NodeReply:
    """Return the reply for a node that did not answer: it may have the transaction."""
    return NodeReply(Broadcast(Outcome.UNKNOWN, str(fault)), fault)


def _fault(meaning: Outcome | Hint | None, code: Any, retry_after: str) -> Fault | None:
    """Return the fault of the node that the words mean; only without known words does the code count."""
    is_limit_code = isinstance(code, int) and code in RATE_LIMIT_CODES
    if meaning is Hint.RATE_LIMITED or (meaning is None and is_limit_code):
        return rate_limited(retry_after)
    if meaning is Hint.WRONG_CHAIN:
        return Fault("is on another chain", pause_seconds=WRONG_CHAIN_PAUSE_SECONDS, wrong_chain=True)
    return Fault("does not accept transactions now") if meaning is Hint.NOT_READY else None


def _words(message: Any) -> str:
    """Return a foreign message as it can be stored and shown."""
    text = message[:MAX_MATCHED_LENGTH] if isinstance(message, str) else "an error without a message"
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(URL.sub("[URL]", printable).split())[:MAX_ERROR_LENGTH]
