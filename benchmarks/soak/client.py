"""A client with one connection, which records every answer and never asks twice by itself."""

import http.client
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import orjson

from benchmarks.soak.answers import HTML, NO_ANSWER, OTHER, REDIRECT, Answer, judge

# Longer than the service may wait for its database: who waits longer hangs.
ANSWER_SECONDS = 30
# Then a client connects anew, so that a web process that was started again gets its part of the callers.
REQUESTS_OF_A_CONNECTION = 50


@dataclass
class Site:
    """Where the service is, how to be let in, and what its callers have seen."""

    port: int
    token: str
    cookies: dict[str, str]
    answer_seconds: int = ANSWER_SECONDS
    answers: list[Answer] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes

    @property
    def content(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True)
class Request:
    """What is asked, the shape of its answer, and the statuses that are right."""

    kind: str
    shape: str
    method: str
    path: str
    body: bytes | None = None
    expected: frozenset[int] = frozenset({200})
    token: str | None = None
    idempotency_key: str = ""


class Client:
    def __init__(self, site: Site) -> None:
        self.site = site
        self._asked = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=site.answer_seconds)

    def ask(self, request: Request) -> Reply | None:
        """Send a request and record its answer; return it, or None if it was not the one that is wanted."""
        self._asked += 1
        if self._asked % REQUESTS_OF_A_CONNECTION == 0:
            self._connection.close()
        began = time.monotonic()
        try:
            self._connection.request(request.method, request.path, request.body, self._headers(request))
            response = self._connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            trouble = OTHER if isinstance(error, TimeoutError) else NO_ANSWER
            self._record(request, trouble.replace(OTHER, "timeout"), began, trouble, repr(error))
            return None
        content_type = response.headers.get("Content-Type", "")
        label, trouble = judge(request.shape, set(request.expected), response.status, content_type, body)
        self._record(request, label, began, trouble, f"{content_type}: {body[:300]!r}" if trouble else "")
        return None if trouble else Reply(response.status, body)

    def post_form(self, kind: str, path: str, shape: str = REDIRECT, **form: object) -> Reply | None:
        """Post a form of the admin; its answer is a redirect, or a page where it asks for confirmation."""
        values = {**form, "csrfmiddlewaretoken": self.site.cookies["csrftoken"]}
        expected = frozenset({302 if shape == REDIRECT else 200})
        return self.ask(Request(kind, shape, "POST", path, urlencode(values).encode(), expected))

    def _headers(self, request: Request) -> dict[str, str]:
        if request.shape in {HTML, REDIRECT}:
            cookies = "; ".join(f"{name}={value}" for name, value in self.site.cookies.items())
            return {"Cookie": cookies, "Content-Type": "application/x-www-form-urlencoded"}
        token = self.site.token if request.token is None else request.token
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return headers | ({"Idempotency-Key": request.idempotency_key} if request.idempotency_key else {})

    def _record(self, request: Request, label: str, began: float, trouble: str, details: str) -> None:
        if details:
            details = f"{request.method} {request.path}: {details}"
        self.site.answers.append(Answer(request.kind, label, began, time.monotonic(), trouble, details))
