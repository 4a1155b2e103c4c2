"""A service that stores transactions under their idempotency keys, and refuses what a test tells it to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from tests.client.examples import TRANSACTION
from tests.client.scripted_server import Answer, Request, ScriptedServer, ok, refused
from tests.servers import serving

NOT_FOUND = refused(404, "not_found")
PREFIX = "/api/v1/relayers/"


def relayer_of(request: Request) -> str:
    return request.path.removeprefix(PREFIX).partition("/")[0]


class FakeService(ScriptedServer):
    def __init__(self) -> None:
        super().__init__([])
        # By idempotency key.
        self.accepted: dict[str, dict[str, Any]] = {}
        # Of relayers whose responses have the header.
        self.generations: dict[str, int] = {}
        # Returns what a request is answered instead; it is called before the request is carried out.
        self.refusal: Callable[[Request], Answer | None] = lambda request: None
        # The same, after it was carried out.
        self.loss: Callable[[Request], Answer | None] = lambda request: None

    def next(self, request: Request) -> Answer:
        with self.lock:
            self.requests.append(request)
            if answer := self.refusal(request):
                return answer
            found = self._answer(request)
            if found.status == 200 and (generation := self.generations.get(relayer_of(request))) is not None:
                found.headers["Relayer-Generation"] = str(generation)
            return self.loss(request) or found

    def _answer(self, request: Request) -> Answer:
        path, _, _ = request.path.removeprefix(PREFIX).partition("?")
        relayer_id, _, *identifiers = path.split("/")
        if request.method == "POST":
            stored = {**TRANSACTION, **json.loads(request.body), "id": str(uuid4()), "relayer_id": relayer_id}
            return ok(self.accepted.setdefault(request.headers["idempotency-key"], stored))
        own = [each for each in self.accepted.values() if each["relayer_id"] == relayer_id]
        if identifiers:
            return next((ok(each) for each in own if each["id"] == identifiers[0]), NOT_FOUND)
        return ok(own[::-1], pagination={"per_page": len(own) + 1, "current_page": 1, "total_items": len(own)})

    @property
    def senders(self) -> list[str]:
        """The relayers of the requests to send, in their order."""
        return [relayer_of(each) for each in self.requests if each.method == "POST"]

    @property
    def posts(self) -> list[dict[str, Any]]:
        return [json.loads(each.body) for each in self.requests if each.method == "POST"]

    def finish(self, status: str = "confirmed", **fields: Any) -> None:
        for each in self.accepted.values():
            each.update(status=status, status_reason=None, hash=f"0x{'ab' * 32}", **fields)


@contextmanager
def fake_service() -> Iterator[FakeService]:
    server = FakeService()
    server.daemon_threads = True
    with serving(server, threading.Event()):
        yield server
