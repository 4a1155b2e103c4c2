"""What nodes answer to `eth_sendRawTransaction`, as data: the words of clients, and the file of each that has them.

The first row of `send_texts.csv` counts whose letters and digits are in the message: clients differ in case, spaces
and hyphens. So the order matters: "replacement transaction underpriced" comes before "underpriced", limits of
providers before those of pools, and words that gateways wrap those of others in come last. After our own check of the
signature, an invalid sender means a node on another chain. Only what can never be included is refused, as that closes
a nonce; words that leave this open have no row.
"""

import csv
from enum import StrEnum
from pathlib import Path


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


class Hint(StrEnum):
    """What words mean that are no outcome by themselves: a fault of the node, or that two numbers decide."""

    RATE_LIMITED = "rate limited"
    WRONG_CHAIN = "wrong chain"
    NOT_READY = "not ready"
    NONCE_MISMATCH = "nonce mismatch"


Meaning = Outcome | Hint
# Client, text, class, and the file of the client that has it.
Text = tuple[str, str, Meaning, str]


def _read() -> tuple[Text, ...]:
    meanings: dict[str, Meaning] = {each.value: each for each in (*Outcome, *Hint)}
    with Path(__file__).with_suffix(".csv").open(newline="") as file:
        _header, *rows = csv.reader(file)
    return tuple((client, text, meanings[meaning], source) for client, text, meaning, source in rows)


TEXTS = _read()
