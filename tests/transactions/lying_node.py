"""A node that lies: a proxy in front of a real one that breaks chosen answers, or those that a seed draws.

    with lying_node(chain.url) as node:
        node.lie_once(SEND, drop_answer)
        node.lie("eth_getTransactionReceipt", lag(3))
        node.lie_by_seed(7, SEEDED)
        node.be_honest()

The lies are in lies.py. A lie decides about one request, single or batch. `node.raw` has all signed transactions that
arrived, whether they were passed on or not: the bytes that left the service.
"""

from __future__ import annotations

import json
import random
import threading
import urllib.error
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.chain import faults
from tests.chain.faults import Handler, NodeServer

Call = dict[str, Any]
Answer = dict[str, Any]

SEND = "eth_sendRawTransaction"
# Lies about every method.
ANY = "*"


class Request:
    """One HTTP request to the proxy, and the ways to answer it."""

    def __init__(self, handler: Handler, asked: Any, disguise: Disguise | None = None) -> None:
        self.handler = handler
        self.disguise = disguise
        self.is_batch = isinstance(asked, list)
        self.calls: list[Call] = asked if self.is_batch else [asked]

    def ask(self, call: Call) -> Answer:
        """Return what the real node answers to one call."""
        answer: Answer = faults.ask_upstream(self.handler, call)
        return answer

    def pass_on(self, call: Call) -> Answer:
        """Return that too, but for what the node disguises in every answer."""
        answer = self.ask(call)
        return self.disguise(self, call, answer) if self.disguise else answer

    def answers(self) -> list[Answer]:
        """Return what the real node answers to each call, in order."""
        return [self.pass_on(call) for call in self.calls]

    def body(self, answers: list[Answer]) -> bytes:
        return json.dumps(answers if self.is_batch else answers[0]).encode()

    def answer(self, answers: list[Answer], status: int = 200) -> None:
        faults.send(self.handler, self.body(answers), status)


Lie = Callable[[Request], None]
# Changes the answer to one call.
Disguise = Callable[[Request, Call, Answer], Answer]


def honest(request: Request) -> None:
    request.answer(request.answers())


class LyingNode:
    """What the proxy does, and what has arrived."""

    def __init__(self, server: NodeServer) -> None:
        self.server = server
        self.url = server.url
        self.raw: list[bytes] = []
        # The name of each lie told, for the reports of tests with seeds.
        self.told: list[str] = []
        self._lock = threading.Lock()
        self._once: defaultdict[str, list[Lie]] = defaultdict(list)
        self._always: dict[str, Lie] = {}
        self._random: random.Random | None = None
        self._drawn: list[Lie] = []
        self._share = 0.0
        # Applied to every answer, also to those without another lie.
        self.disguise: Disguise | None = None

    def lie_once(self, method: str, *lies: Lie) -> None:
        """Tell these lies about the next requests with this method, one each."""
        with self._lock:
            self._once[method] += lies

    def lie(self, method: str, lie: Lie) -> None:
        """Tell a lie about every request with this method."""
        with self._lock:
            self._always[method] = lie

    def lie_by_seed(self, seed: int, lies: Sequence[Lie], share: float = 0.3) -> None:
        """Draw one of these lies for this share of the requests: the same ones, in order, for the same seed."""
        with self._lock:
            self._random, self._drawn, self._share = random.Random(seed), list(lies), share

    def be_honest(self) -> None:
        with self._lock:
            self._once.clear()
            self._always.clear()
            self._random = None
            self.disguise = None

    def requests(self, method: str) -> list[list[Call]]:
        """Return the calls of each request with this method."""
        found = [asked if isinstance(asked, list) else [asked] for asked in list(self.server.requests)]
        return [calls for calls in found if any(call["method"] == method for call in calls)]

    def behave(self, handler: Handler, asked: Any) -> None:
        request = Request(handler, asked, self.disguise)
        with self._lock:
            self.raw += [bytes.fromhex(call["params"][0][2:]) for call in request.calls if call["method"] == SEND]
            lie = self._choose([call["method"] for call in request.calls])
            if lie is not honest:
                self.told.append(getattr(lie, "__name__", "lie"))
        try:
            lie(request)
        except urllib.error.URLError:
            # The real node is down: so is its proxy.
            faults.reset(handler, None)

    def _choose(self, methods: list[str]) -> Lie:
        for method in [*methods, ANY]:
            if self._once[method]:
                return self._once[method].pop(0)
            if method in self._always:
                return self._always[method]
        if self._random is None or self._random.random() >= self._share:
            return honest
        return self._random.choice(self._drawn)


@contextmanager
def lying_node(upstream: str) -> Iterator[LyingNode]:
    with faults.node(honest_until_set, upstream) as server:
        node = LyingNode(server)
        server.behaviour = node.behave
        yield node


def honest_until_set(handler: Handler, asked: Any) -> None:
    honest(Request(handler, asked))
