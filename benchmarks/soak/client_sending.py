"""The soak of sending through the Python client, which alone decides what is sent again."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx

from benchmarks.sending.hardhat import record
from benchmarks.soak.answers import NO_ANSWER, OTHER, RESOURCE, Answer, judge
from benchmarks.soak.client import Site
from benchmarks.soak.send_callers import EXPECTED, Sender
from benchmarks.soak.send_rows import SendingRelayer
from benchmarks.soak.sending import SendingSoak
from relayer_client import Client, Retries, errors

CALLERS_PER_RELAYER = 5
# What a caller sends before it waits for all of them.
SENT_AT_ONCE = 4
WAIT_SECONDS = 90


class RecordingTransport(httpx.HTTPTransport):
    """Records each request of the client, those that it repeats by itself too."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self.keys: list[str] = []
        self.replayed_keys: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        key = request.headers.get("idempotency-key", "")
        if key:
            self.keys.append(key)
        began = time.monotonic()
        try:
            response = super().handle_request(request)
            body = response.read()
        except httpx.TransportError as error:
            is_late = isinstance(error, httpx.TimeoutException)
            label, trouble = ("timeout", OTHER) if is_late else (NO_ANSWER, NO_ANSWER)
            self._record(request, label, began, trouble, repr(error))
            raise
        if "idempotent-replayed" in response.headers:
            self.replayed_keys.add(key)
        content_type = response.headers.get("content-type", "")
        label, trouble = judge(RESOURCE, set(EXPECTED), response.status_code, content_type, body)
        self._record(request, label, began, trouble, f"{content_type}: {body[:300]!r}" if trouble else "")
        return response

    def _record(self, request: httpx.Request, label: str, began: float, trouble: str, details: str) -> None:
        kind = "send a transaction" if request.method == "POST" else "wait for one"
        if details:
            details = f"{request.method} {request.url.path}: {details}"
        self.site.answers.append(Answer(kind, label, began, time.monotonic(), trouble, details))


class ClientSender(Sender):
    """Sends some and waits until they are confirmed. A call that raises is not repeated."""

    pause_seconds = 0.1

    def __init__(
        self, site: Site, relayer: SendingRelayer, ledger: str, position: int, client: Client, wait_seconds: float
    ) -> None:
        super().__init__(site, relayer, ledger, position)
        self._relayer = client.relayer(relayer.identifier)
        self._wait_seconds = wait_seconds
        self.raised: Counter[str] = Counter()

    def step(self) -> None:
        sent = []
        for _ in range(SENT_AT_ONCE):
            self.number += 1
            with self._noting_errors():
                sent.append(self._relayer.send(to=self.ledger, data=record(self.number), speed="fast"))
                self.accepted[self.number] = sent[-1].id
        for transaction in sent:
            with self._noting_errors():
                self._relayer.wait(transaction, timeout=self._wait_seconds)

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except errors.RelayerClientError as error:
            self.raised[type(error).__name__] += 1
            self.faults.append(f"a call of {self.relayer.identifier} raised {error!r}")


class ClientSoak(SendingSoak):
    # The last calls wait for their confirmations.
    beside_seconds = SendingSoak.beside_seconds + WAIT_SECONDS

    def create_senders(self) -> Sequence[Sender]:
        # They log each request.
        for name in ("httpx", "relayer_client"):
            logging.getLogger(name).setLevel(logging.WARNING)
        patience, retries = self.pace.patience, Retries()
        self.transport = RecordingTransport(self.site)
        client = Client(
            f"http://127.0.0.1:{self.site.port}",
            self.site.token,
            retries=replace(retries, attempts=retries.attempts + patience - 1),
            http=httpx.Client(transport=self.transport, timeout=self.site.answer_seconds),
        )
        callers = enumerate(self.rows.relayers * CALLERS_PER_RELAYER)
        self.client_senders = [
            ClientSender(self.site, relayer, self.chain.ledger, position, client, WAIT_SECONDS * patience)
            for position, relayer in callers
        ]
        return self.client_senders

    def figures(self) -> dict[str, Any]:
        figures = super().figures()
        figures["transactions"] |= {
            "calls": sum(len(sender.sent_numbers()) for sender in self.client_senders),
            "repeated_requests": len(self.transport.keys) - len(set(self.transport.keys)),
            "replayed_keys": len(self.transport.replayed_keys),
            "raised": dict(sum((sender.raised for sender in self.client_senders), Counter())),
        }
        return figures
