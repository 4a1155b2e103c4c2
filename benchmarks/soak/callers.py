"""The callers: each asks for one kind of thing again and again, and remembers what it was promised."""

import itertools
import re
import time
import traceback
from collections.abc import Iterator

import orjson

from benchmarks.rpc import ESTIMATE
from benchmarks.soak.answers import CALL, HTML, OTHER, PAGE, REFUSAL, RESOURCE, Answer
from benchmarks.soak.client import Client, Request, Site
from benchmarks.soak.receiver import Receiver, signing_key
from benchmarks.soak.rows import ESTIMATED, Row

SIGNERS, RELAYERS, NOTIFICATIONS = "/api/v1/signers", "/api/v1/relayers", "/api/v1/notifications"
RELAYER_PAGE = "/admin/relayers/relayer/"
# With these the confirmation page of an action sends back what it asked about.
HIDDEN_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="(\w+)">')


class Caller:
    """Makes a step, pauses, and so on until it is told to stop."""

    pause_seconds = 0.1

    def __init__(self, site: Site) -> None:
        self.site = site
        self.client = Client(site)

    def step(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        while not self.site.stopping.wait(self.pause_seconds):
            try:
                self.step()
            except Exception:
                now, name = time.monotonic(), type(self).__name__
                self.site.answers.append(Answer(name, "crashed", now, now, OTHER, traceback.format_exc()))


class Reader(Caller):
    """Makes the same few requests in turn."""

    def __init__(self, site: Site, requests: list[Request], pause_seconds: float = Caller.pause_seconds) -> None:
        super().__init__(site)
        self.pause_seconds = pause_seconds
        self.requests: Iterator[Request] = itertools.cycle(requests)

    def step(self) -> None:
        self.client.ask(next(self.requests))


class Creator(Caller):
    """Creates signers with ids of its own; one that was not acknowledged is tried again, and may be there by then."""

    numbers = itertools.count(1)

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.acknowledged: set[str] = set()
        self.last = ""

    def step(self) -> None:
        retried = bool(self.last) and self.last not in self.acknowledged
        if not retried:
            self.last = f"signer-{next(self.numbers)}"
        body = {"id": self.last, "type": "plain", "config": {"key": "0x" + "11" * 32}}
        expected = frozenset({201, 409} if retried else {201})
        shape = RESOURCE
        if self.client.ask(Request("create a signer", shape, "POST", SIGNERS, orjson.dumps(body), expected)):
            self.acknowledged.add(self.last)


class Patcher(Caller):
    """Changes URL and signing key of a webhook together, to those of the next number."""

    def __init__(self, site: Site, target: Row, receiver: Receiver) -> None:
        super().__init__(site)
        self.target = target
        self.receiver = receiver
        self.sent = self.acknowledged = 0
        self.pause_seconds = 0.2

    def step(self) -> None:
        self.sent += 1
        path = f"/{self.target.identifier}/{self.sent}"
        body = {"url": self.receiver.url(path), "signing_key": signing_key(path)}
        if self._patch(body) == body["url"]:
            self.acknowledged = self.sent

    def read_back(self) -> int | None:
        """Return the number that the service has now."""
        # The service closes a connection that was idle for as long as the last webhooks may take.
        self.client = Client(self.site)
        url = self._patch({})
        return int(url.rpartition("/")[2]) if url else None

    def _patch(self, body: dict[str, str]) -> str | None:
        path = f"{NOTIFICATIONS}/{self.target.identifier}"
        reply = self.client.ask(Request("patch a notification", RESOURCE, "PATCH", path, orjson.dumps(body)))
        return str(reply.content["data"]["url"]) if reply else None


class Pauser(Caller):
    """Pauses and resumes a relayer that nobody else touches, and confirms it as staff do.

    Each change emits one event, however often it has to be asked for: to pause a paused relayer changes nothing.
    """

    pause_seconds = 0.3

    def __init__(self, site: Site, relayer: Row) -> None:
        super().__init__(site)
        self.relayer = relayer
        self.acknowledged = 0
        self.unanswered = 0

    def step(self) -> None:
        action = "resume_selected" if self.acknowledged % 2 else "pause_selected"
        selected = {"action": action, "_selected_action": self.relayer.pk}
        page = self.client.post_form("ask to pause", RELAYER_PAGE, HTML, **selected)
        # Without its page nothing can have changed.
        if page is None:
            return
        form = dict(HIDDEN_FIELD.findall(page.body.decode())) | {"reason": "Soak"}
        if self.client.post_form("pause a relayer", RELAYER_PAGE, **form):
            self.acknowledged += 1
            self.unanswered = 0
        else:
            self.unanswered = 1


class Prober(Caller):
    """Sends test events to a webhook; one that was not acknowledged may have been emitted."""

    pause_seconds = 0.3

    def __init__(self, site: Site, target: Row) -> None:
        super().__init__(site)
        self.target = target
        self.acknowledged = 0
        self.unanswered = 0

    def step(self) -> None:
        path = f"/admin/notifications/notification/{self.target.pk}/send_test_event/"
        if self.client.post_form("send a test event", path):
            self.acknowledged += 1
        else:
            self.unanswered += 1


def lists(kind: str, path: str, pages: list[str]) -> list[Request]:
    return [Request(kind, PAGE, "GET", f"{path}{page}") for page in pages]


SIGNER_LISTS = lists("list signers", SIGNERS, ["", "?page=2", "?page=3&per_page=50", "?per_page=100"])
RELAYER_LISTS = lists("list relayers", RELAYERS, ["", "?page=2", "?page=2&per_page=100", "?page=20"])
ESTIMATES = [Request("estimate a fee", CALL, "POST", f"{RELAYERS}/{ESTIMATED}/rpc", orjson.dumps(ESTIMATE))]
PAGES = [
    Request("admin page", HTML, "GET", path) for path in ("/admin/", RELAYER_PAGE, "/admin/notifications/delivery/")
]
REFUSALS = [
    Request("refused call", REFUSAL, "GET", SIGNERS, expected=frozenset({401}), token="unknown"),
    Request("refused call", REFUSAL, "POST", SIGNERS, b'{"type": ', frozenset({400})),
    Request("refused call", REFUSAL, "PATCH", f"{NOTIFICATIONS}/unknown", b"{}", frozenset({404})),
    Request("refused call", REFUSAL, "DELETE", SIGNERS, expected=frozenset({405})),
    Request("refused call", REFUSAL, "GET", "/api/v1/unknown", expected=frozenset({404})),
]
