"""What a node's answer to `eth_sendRawTransaction` means, by its words.

Clients use the same error codes for all of this, so that the code alone says nothing.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from chain.answers import (
    BEHIND_WORDS,
    RATE_LIMIT_CODES,
    RATE_LIMIT_WORDS,
    WRONG_CHAIN_PAUSE_SECONDS,
    Fault,
    rate_limited,
)

MAX_ERROR_LENGTH = 200
# Far longer than any message of a client; a revert reason can have any length.
MAX_MATCHED_LENGTH = 4_000
URL = re.compile(r"[a-z][a-z0-9+.-]{0,20}://\S*", re.IGNORECASE)
# Hardhat names the minimum of a replacement, Geth and its descendants that of the tip.
MINIMUM_PRICE = re.compile(r"\b(?:at least|minimum needed):? (\d{1,30})\b")


class Outcome(StrEnum):
    """A node's answer to the broadcast of a signed transaction."""

    ACCEPTED = "accepted"
    KNOWN = "already known"
    NONCE_TOO_LOW = "nonce too low"
    NONCE_TOO_HIGH = "nonce too high"
    # Another transaction with this nonce is in the pool.
    REPLACEMENT_UNDERPRICED = "replacement underpriced"
    UNDERPRICED = "underpriced"
    INSUFFICIENT_FUNDS = "insufficient funds"
    POOL_LIMIT = "pool limit"
    FEE_CAP = "fee cap of the node"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Broadcast:
    """The outcome for one signed transaction."""

    outcome: Outcome
    # The node's words, shortened and without URLs; empty if it accepted.
    error: str = ""
    # The minimum price that the node named, in wei.
    minimum_price: int | None = None


@dataclass(frozen=True)
class Verdict:
    """The outcome at one node, and its fault if it is the node that failed and not the transaction."""

    broadcast: Broadcast
    fault: Fault | None = None

    @property
    def outcome(self) -> Outcome:
        return self.broadcast.outcome


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.DOTALL)


# Reverts come before everything else, as a contract chooses their words, which may be any of those below.
REVERTED = _any_of(
    "execution reverted", r"\brevert(?:ed)?\b", "invalid opcode", "vm exception while processing transaction"
)

# The first match counts: "replacement transaction underpriced" has the words of "transaction underpriced".
RULES: tuple[tuple[Outcome, re.Pattern[str]], ...] = (
    (Outcome.REFUSED, REVERTED),
    (
        Outcome.KNOWN,
        _any_of(
            "already ?known", "(?<!un)known transaction", "already ?imported", "transaction is already in the pool"
        ),
    ),
    (
        Outcome.NONCE_TOO_LOW,
        _any_of(
            "nonce (?:is )?too low",
            "noncetoolow",
            "oldnonce",
            "invalid transaction nonce",
            "nonce has already been used",
            r"pool\(stale\)",
            "already finalized",
        ),
    ),
    (
        Outcome.NONCE_TOO_HIGH,
        _any_of(
            "nonce (?:is )?too high",
            "noncetoohigh",
            "nonce ?gap",
            "gapped-nonce",
            "future nonce",
            "exceeds next nonce",
            "too far in (?:the )?future",
            "noncetoofarinfuture",
            "nonce is too distant",
            "nonce out of range",
        ),
    ),
    (
        Outcome.REPLACEMENT_UNDERPRICED,
        _any_of(
            "replacement (?:transaction )?underpriced",
            "replacementnotallowed",
            "could not replace existing tx",
            "same nonce in the (?:queue|tx pool)",
            "ownnoncealreadyused",
            "feetoolowtocompete",
        ),
    ),
    (
        Outcome.UNDERPRICED,
        _any_of(
            "transaction underpriced",
            "below (?:the )?(?:configured )?minimum",
            "(?:gas|transaction) price (?:is )?too low",
            "max fee per gas less than block base fee",
            "feetoolow",
        ),
    ),
    (
        Outcome.INSUFFICIENT_FUNDS,
        _any_of(
            "insufficient ?funds",
            "insufficient balance",
            "not enough balance",
            "upfront cost exceeds",
            "overdraft",
            "overshot",
            "doesn't have enough funds",
            "gas required exceeds allowance",
        ),
    ),
    # Before the limits of pools, as providers limit requests by account too.
    (Outcome.UNKNOWN, RATE_LIMITED := _any_of(*RATE_LIMIT_WORDS)),
    (
        Outcome.POOL_LIMIT,
        _any_of(
            "tx ?pool is full",
            "too many transactions",
            "pool limit",
            "queue full",
            "pending tx pool full",
            "in-flight transaction limit reached",
            "future transaction tries to replace pending",
            "account.{0,100}limit",
        ),
    ),
    (Outcome.FEE_CAP, _any_of("exceeds the configured cap", "transaction fee cap exceeded")),
    # The signature was verified before: the node derives another sender because it is on another chain.
    (
        Outcome.UNKNOWN,
        WRONG_CHAIN := _any_of("invalid chain ?id", "wrong chain ?id", "invalid sender", "signed for another chain"),
    ),
    (
        Outcome.REFUSED,
        _any_of(
            "intrinsic ?gas",
            r"requires at least \d+ gas",
            "exceeds block gas limit",
            "gaslimitexceeded",
            "exceeds transaction gas cap",
            "gas limit too high",
            "oversized data",
            "max initcode size",
            "invalid signature",
            "negative value",
            "gas uint64 overflow",
            "sender not an eoa",
            "senderiscontract",
            "type not supported",
            "tip.{0,100}bigger than",
            "higher than max ?fee",
        ),
    ),
    (Outcome.UNKNOWN, BEHIND := _any_of(*BEHIND_WORDS)),
)
PRICE_OUTCOMES = {Outcome.UNDERPRICED, Outcome.REPLACEMENT_UNDERPRICED}


def judge_result(result: Any, expected_hash: str) -> Verdict:
    """Return the verdict for a result: a node that accepts a transaction returns its hash."""
    if isinstance(result, str) and result.lower() == expected_hash:
        return Verdict(Broadcast(Outcome.ACCEPTED))
    return failed(Fault("returned another hash than the transaction's"))


def judge_error(error: Any, expected_hash: str, retry_after: str = "") -> Verdict:
    """Return the verdict for the `error` of an answer, whatever its shape."""
    fields = error if isinstance(error, dict) else {"message": error}
    code, data = fields.get("code"), fields.get("data")
    # Some providers wrap the error of a client in their own.
    wrapped = data.get("message") if isinstance(data, dict) else data
    messages = [
        text[:MAX_MATCHED_LENGTH].lower() for text in (fields.get("message"), wrapped) if isinstance(text, str)
    ]
    matches = ((outcome, pattern, text) for text in messages for outcome, pattern in RULES if pattern.search(text))
    outcome, pattern, text = next(matches, (Outcome.UNKNOWN, None, ""))
    if pattern in {REVERTED, None} and _names_hash(data, expected_hash):
        # Hardhat and Ganache report this way that a transaction which they have mined failed.
        return Verdict(Broadcast(Outcome.ACCEPTED))
    minimum = _minimum_price(text) if outcome in PRICE_OUTCOMES else None
    fault = _fault(pattern, code, retry_after)
    return Verdict(Broadcast(outcome, _words(fields.get("message")), minimum), fault)


def failed(fault: Fault) -> Verdict:
    """Return the verdict for a node that did not answer: it may have the transaction."""
    return Verdict(Broadcast(Outcome.UNKNOWN, str(fault)), fault)


def _fault(pattern: re.Pattern[str] | None, code: Any, retry_after: str) -> Fault | None:
    """Return the fault of the node that the words mean; only without known words does the code count."""
    is_limit_code = isinstance(code, int) and code in RATE_LIMIT_CODES
    if pattern is RATE_LIMITED or (pattern is None and is_limit_code):
        return rate_limited(retry_after)
    if pattern is WRONG_CHAIN:
        return Fault("is on another chain", pause_seconds=WRONG_CHAIN_PAUSE_SECONDS, wrong_chain=True)
    return Fault("does not have the latest state") if pattern is BEHIND else None


def _names_hash(data: Any, expected_hash: str) -> bool:
    return isinstance(data, dict) and expected_hash in {str(data.get(name)).lower() for name in ("txHash", "hash")}


def _minimum_price(text: str) -> int | None:
    found = MINIMUM_PRICE.search(text)
    return int(found[1]) if found else None


def _words(message: Any) -> str:
    """Return a foreign message as it can be stored and shown."""
    text = message[:MAX_MATCHED_LENGTH] if isinstance(message, str) else "an error without a message"
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(URL.sub("[URL]", printable).split())[:MAX_ERROR_LENGTH]
