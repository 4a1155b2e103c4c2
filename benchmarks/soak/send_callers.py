"""Callers that send transactions, cancel and replace some, and remember which were accepted."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from benchmarks.sending.hardhat import record
from benchmarks.soak.answers import PAGE, RESOURCE
from benchmarks.soak.callers import RELAYERS, Caller
from benchmarks.soak.client import Request, Site
from benchmarks.soak.send_rows import VALUE, SendingRelayer

# Numbers in the ledger, for each caller.
NUMBERS = 1_000_000
# One in so many is sent again although it was accepted.
REPEATED_EVERY = 10
# 429: the queue of the relayer is full.
EXPECTED = frozenset({200, 429})
# A replacement records the number of its request plus this.
REPLACEMENT = NUMBERS // 2
# What a caller does, by the last digit of the number: of ten requests six have a value, two are canceled and two are
# replaced, at once or when a few more were sent, which is some blocks later.
VALUED = {0, 2, 4, 5, 7, 8}
CANCELED_AT_ONCE, CANCELED_LATER, REPLACED_AT_ONCE, REPLACED_LATER = 1, 4, 3, 7
LATER = 4
# 403: refused by a spending rule. 409: mined or final already, or being canceled.
CHANGED = frozenset({200, 403, 409})


class Sender(Caller):
    """Sends one after another, each with its own key; one without an answer is sent again with the same key."""

    pause_seconds = 0.4

    def __init__(self, site: Site, relayer: SendingRelayer, ledger: str, position: int) -> None:
        super().__init__(site)
        self.relayer, self.ledger = relayer, ledger
        self.first = self.number = position * NUMBERS
        # By number in the ledger, the id of the transaction.
        self.accepted: dict[int, str] = {}
        # Numbers that the service was asked to cancel or replace, whatever it answered.
        self.canceled: set[int] = set()
        self.replaced: set[int] = set()
        self.refused: set[int] = set()
        self.replays = 0
        self.faults: list[str] = []

    def step(self) -> None:
        if self.number in self.accepted or self.number in self.refused or self.number == self.first:
            self.number += 1
        self.send(self.number)
        if self.number in self.accepted and self.number % REPEATED_EVERY == 0:
            self.send(self.number)

    def sent_numbers(self) -> range:
        return range(self.first + 1, self.number + 1)

    @property
    def path(self) -> str:
        return f"{RELAYERS}/{self.relayer.identifier}/transactions"

    def body(self, number: int, value: int = 0) -> bytes:
        return orjson.dumps({"to": self.ledger, "value": value, "data": record(number), "speed": "fast"})

    def request(self, number: int) -> Request:
        return Request(
            "send a transaction",
            RESOURCE,
            "POST",
            self.path,
            self.body(number),
            EXPECTED,
            idempotency_key=f"soak-{number}",
        )

    def send(self, number: int) -> None:
        request = self.request(number)
        reply = self.client.ask(request)
        if reply is not None and reply.status == 403:
            self.refused.add(number)
        if reply is None or reply.status != 200:
            return
        identifier = reply.content["data"]["id"]
        self.replays += number in self.accepted
        if self.accepted.setdefault(number, identifier) != identifier:
            self.faults.append(
                f"{request.idempotency_key} was accepted twice: {self.accepted[number]} and {identifier}"
            )


class LimitedSender(Sender):
    """Sends a value with some, up to the relayer's limit, and cancels or replaces some."""

    def request(self, number: int) -> Request:
        value = VALUE if number % 10 in VALUED else 0
        sent: dict[str, Any] = {"body": self.body(number, value), "expected": EXPECTED | ({403} if value else set())}
        return replace(super().request(number), **sent)

    def step(self) -> None:
        super().step()
        for number, cancels, replaces in (
            (self.number, CANCELED_AT_ONCE, REPLACED_AT_ONCE),
            (self.number - LATER, CANCELED_LATER, REPLACED_LATER),
        ):
            if number not in self.accepted or number in self.canceled or number in self.replaced:
                continue
            if number % 10 == cancels:
                self.cancel(number)
            elif number % 10 == replaces:
                self.replace(number)

    def cancel(self, number: int) -> None:
        self.canceled.add(number)
        self.client.ask(
            Request("cancel one", RESOURCE, "DELETE", f"{self.path}/{self.accepted[number]}", None, CHANGED)
        )

    def replace(self, number: int) -> None:
        """Replace a request by another one, of a smaller value if it has one."""
        self.replaced.add(number)
        body = self.body(number + REPLACEMENT, VALUE // 2 if number % 10 in VALUED else 0)
        self.client.ask(Request("replace one", RESOURCE, "PUT", f"{self.path}/{self.accepted[number]}", body, CHANGED))


def lists(relayers: Sequence[SendingRelayer]) -> list[Request]:
    """Return the requests of a reader."""
    paths = [f"{RELAYERS}/{relayer.identifier}/transactions" for relayer in relayers]
    queries = ("", "?status=pending", "?page=2")
    return [Request("list transactions", PAGE, "GET", f"{path}{query}") for path in paths for query in queries]
