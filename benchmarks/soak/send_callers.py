"""A caller that sends transactions and remembers which were accepted."""

from collections.abc import Sequence

import orjson

from benchmarks.sending.hardhat import record
from benchmarks.soak.answers import PAGE, RESOURCE
from benchmarks.soak.callers import RELAYERS, Caller
from benchmarks.soak.client import Request, Site
from benchmarks.soak.send_rows import SendingRelayer

# Numbers in the ledger, for each caller.
NUMBERS = 1_000_000
# One in so many is sent again although it was accepted.
REPEATED_EVERY = 10
# 429: the queue of the relayer is full.
EXPECTED = frozenset({200, 429})


class Sender(Caller):
    """Sends one after another, each with its own key; one without an answer is sent again with the same key."""

    pause_seconds = 0.4

    def __init__(self, site: Site, relayer: SendingRelayer, ledger: str, position: int) -> None:
        super().__init__(site)
        self.relayer, self.ledger = relayer, ledger
        self.first = self.number = position * NUMBERS
        # By number in the ledger, the id of the transaction.
        self.accepted: dict[int, str] = {}
        self.replays = 0
        self.faults: list[str] = []

    def step(self) -> None:
        if self.number in self.accepted or self.number == self.first:
            self.number += 1
        self.send(self.number)
        if self.number in self.accepted and self.number % REPEATED_EVERY == 0:
            self.send(self.number)

    def sent_numbers(self) -> range:
        return range(self.first + 1, self.number + 1)

    def send(self, number: int) -> None:
        path = f"{RELAYERS}/{self.relayer.identifier}/transactions"
        body = orjson.dumps({"to": self.ledger, "value": 0, "data": record(number), "speed": "fast"})
        key = f"soak-{number}"
        reply = self.client.ask(
            Request("send a transaction", RESOURCE, "POST", path, body, EXPECTED, idempotency_key=key)
        )
        if reply is None or reply.status != 200:
            return
        identifier = reply.content["data"]["id"]
        self.replays += number in self.accepted
        if self.accepted.setdefault(number, identifier) != identifier:
            self.faults.append(f"{key} was accepted twice: {self.accepted[number]} and {identifier}")


def lists(relayers: Sequence[SendingRelayer]) -> list[Request]:
    """Return the requests of a reader."""
    paths = [f"{RELAYERS}/{relayer.identifier}/transactions" for relayer in relayers]
    queries = ("", "?status=pending", "?page=2")
    return [Request("list transactions", PAGE, "GET", f"{path}{query}") for path in paths for query in queries]
