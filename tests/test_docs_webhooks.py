"""What docs/webhooks.md shows: the receivers work, and its bodies and figures are those of the service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import orjson
import pytest
import requests
from django.conf import settings

from notifications.delivery import outbox, posting, sender, signing
from notifications.events import all_events
from relayer_service.net import outgoing
from tests.concurrency import PATIENCE_SECONDS
from tests.servers import PROJECT, free_port, wait_for_port
from transactions.records.representation import TransactionData

DOCUMENT = (PROJECT / "docs/webhooks.md").read_text()
EXAMPLES = PROJECT / "examples/webhooks"

IDENTIFIER = "msg_0123456789abcdef0123456789abcdef"
BODY = '{"type":"notification.test","timestamp":"2026-11-15T04:38:58Z","data":{"notification_id":"Zürich"}}'.encode()
ANOTHER_KEY = "another key"
SIGNING_KEYS = {
    "padded": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "unpadded": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    "text": " correct horse  bättery staple ",
    "short": "k",
}


def blocks(language: str) -> list[str]:
    """Return the document's blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT, re.M | re.S)


def executable(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}")
    return found


def python_program(folder: Path) -> list[str]:
    (source,) = blocks("python")
    program = folder / "receiver.py"
    program.write_text(source)
    return [sys.executable, str(program)]


def javascript_program(folder: Path) -> list[str]:
    return [executable("node"), str(EXAMPLES / "receiver.mjs")]


def go_program(folder: Path) -> list[str]:
    program = folder / "receiver"
    subprocess.run([executable("go"), "build", "-o", str(program), str(EXAMPLES / "receiver.go")], check=True)
    return [str(program)]


@pytest.fixture(
    scope="module",
    params=[
        python_program,
        *(pytest.param(each, marks=pytest.mark.long) for each in (javascript_program, go_program)),
    ],
)
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs a receiver of the document or of the examples."""
    command: list[str] = request.param(tmp_path_factory.mktemp("receiver"))
    return command


@dataclass
class Receiver:
    url: str
    signing_key: str
    log: Path
    client: requests.Session

    def answer(self, request: Request) -> int:
        return self.client.post(self.url, data=request.body, headers=request.headers).status_code


@pytest.fixture(scope="module", params=SIGNING_KEYS)
def receiver(
    request: pytest.FixtureRequest, program: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Receiver]:
    log = tmp_path_factory.mktemp("receiver") / "log"
    signing_key = SIGNING_KEYS[request.param]
    with running(program, signing_key, log) as url, requests.Session() as client:
        client.trust_env = False
        yield Receiver(url, signing_key, log, client)


@contextmanager
def running(program: Sequence[str], signing_key: str, log: Path) -> Iterator[str]:
    port = free_port()
    with log.open("wb") as file:
        env = os.environ | {"SIGNING_KEY": signing_key, "PORT": str(port)}
        process = subprocess.Popen(program, env=env, stdout=file, stderr=file)
        try:
            wait_for_port(port, process=process)
            yield f"http://127.0.0.1:{port}/hook"
        finally:
            process.kill()
            process.wait()


@dataclass
class Request:
    signing_key: str
    body: bytes = BODY
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self.headers = signing.headers(IDENTIFIER, self.moment, self.body, self.signing_key)

    @property
    def signature(self) -> str:
        return self.headers["webhook-signature"]


def test_a_genuine_request_is_taken(receiver: Receiver) -> None:
    assert receiver.answer(Request(receiver.signing_key)) == 204
    assert f"{IDENTIFIER} notification.test\n" in receiver.log.read_text()


def test_a_changed_byte_of_the_body_is_refused(receiver: Receiver) -> None:
    request = Request(receiver.signing_key)
    request.body = BODY.replace(b"notification.test", b"notification.tesu")
    assert receiver.answer(request) == 401


def test_a_changed_id_is_refused(receiver: Receiver) -> None:
    request = Request(receiver.signing_key)
    request.headers["webhook-id"] = "msg_another"
    assert receiver.answer(request) == 401


def test_a_changed_timestamp_is_refused(receiver: Receiver) -> None:
    request = Request(receiver.signing_key)
    request.headers["webhook-timestamp"] = str(int(request.headers["webhook-timestamp"]) + 1)
    assert receiver.answer(request) == 401


def test_a_header_that_is_missing_is_refused(receiver: Receiver) -> None:
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        request = Request(receiver.signing_key)
        del request.headers[name]
        assert receiver.answer(request) == 401


def test_a_signed_timestamp_is_taken_unless_it_is_far_away(receiver: Receiver) -> None:
    moments = [datetime.now(UTC) + timedelta(minutes=minutes) for minutes in (-6, -4, 4, 6)]
    answers = [receiver.answer(Request(receiver.signing_key, moment=moment)) for moment in moments]
    assert answers == [401, 204, 204, 401]


def test_the_signature_of_another_key_is_refused(receiver: Receiver) -> None:
    assert receiver.answer(Request(ANOTHER_KEY)) == 401


def test_one_signature_of_several_is_enough(receiver: Receiver) -> None:
    request = Request(receiver.signing_key)
    request.headers["webhook-signature"] = f"{Request(ANOTHER_KEY).signature} {request.signature}"
    assert receiver.answer(request) == 204


def test_a_signature_of_another_form_is_refused(receiver: Receiver) -> None:
    request = Request(receiver.signing_key)
    good = request.signature.removeprefix("v1,")
    for signature in ("", "v1", "v1,", "v1,no base64", f"v2,{good}", good):
        request.headers["webhook-signature"] = signature
        assert receiver.answer(request) == 401
    assert receiver.answer(Request(receiver.signing_key)) == 204


@pytest.mark.parametrize("signing_key", ["", "whsec_"])
def test_a_receiver_without_a_key_does_not_start(program: list[str], signing_key: str) -> None:
    env = os.environ | {"SIGNING_KEY": signing_key, "PORT": str(free_port())}
    assert subprocess.run(program, env=env, capture_output=True, timeout=PATIENCE_SECONDS).returncode != 0


def test_the_request_that_is_shown_is_signed_with_the_key_that_is_shown() -> None:
    (shown,) = blocks("http")
    head, body = shown.rstrip("\n").split("\n\n")
    headers = dict(line.split(": ", 1) for line in head.splitlines()[1:])
    moment = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    signed = signing.headers(headers["webhook-id"], moment, body.encode(), "correct horse battery staple")
    assert headers == {"Host": "hooks.example.com"} | outgoing.HEADERS | signed


def faults(value: Any, kind: Any, path: str) -> list[str]:
    """Return where a value is not of its type, which may be a typed dictionary or a union."""
    if is_typeddict(kind):
        types = get_type_hints(kind)
        if not isinstance(value, dict) or [*value] != [*types]:
            return [path]
        return [fault for name, inner in types.items() for fault in faults(value[name], inner, f"{path}.{name}")]
    choices = [get_origin(each) or each for each in (get_args(kind) if isinstance(kind, UnionType) else [kind])]
    return [] if type(value) in choices else [path]


def test_every_event_is_shown_with_a_body_as_it_is_sent() -> None:
    (shown,) = blocks("json")
    lines = re.sub(r"\n +", "", shown).splitlines()
    bodies = [orjson.loads(line) for line in lines]
    assert [orjson.dumps(body).decode() for body in bodies] == lines
    assert [[*body] for body in bodies] == [["type", "timestamp", "data"]] * len(bodies)
    events = all_events()
    # All events of transactions have the same data: one of them is shown.
    alike = {name for name, event in events.items() if event.data is TransactionData} - {"transaction.confirmed"}
    assert [body["type"] for body in bodies] == [name for name in events if name not in alike]
    assert [fault for body in bodies for fault in faults(body["data"], events[body["type"]].data, body["type"])] == []


def test_every_event_is_described() -> None:
    items = re.findall(r"^- `([a-z._]+)`: (.*(?:\n  .*)*)", DOCUMENT, re.M)
    assert [(name, " ".join(words.split())) for name, words in items] == [
        (event.name, event.description) for event in all_events().values()
    ]


def test_the_waits_and_limits_that_are_shown_are_the_defaults() -> None:
    (waits,) = re.findall(r"^\| wait \| (.*) \|$", DOCUMENT, re.M)
    units = {"s": 1, "min": 60, "h": 3600}
    seconds = [int(number) * units.get(unit, 1) for number, unit in re.findall(r"(\d+)(?: (\w+))?", waits)]
    assert seconds == settings.WEBHOOK_SCHEDULE
    assert f"each {posting.JITTER:.0%} more or less" in DOCUMENT
    assert f"There are {settings.WEBHOOK_TIMEOUT_SECONDS} seconds for connection and answer together." in DOCUMENT
    assert f"At most {sender.TARGET_CONCURRENCY} deliveries are in flight to a webhook" in DOCUMENT


def test_the_example_of_settings_shows_the_defaults() -> None:
    example = dict(re.findall(r"^#(WEBHOOK_\w+)=(.*)$", (PROJECT / ".env.example").read_text(), re.M))
    # Which private networks are open by default depends on the profile.
    assert example.pop("WEBHOOK_ALLOWED_PRIVATE_NETWORKS") == ""
    values = {name: getattr(settings, name) for name in dir(settings) if name.startswith("WEBHOOK_")}
    del values["WEBHOOK_ALLOWED_PRIVATE_NETWORKS"]
    assert example == {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value) for name, value in values.items()
    }


def test_every_reason_of_a_failure_is_explained() -> None:
    explained = set(re.findall(r"^\| (\S.*\.) \| .* \|$", DOCUMENT, re.M))
    with pytest.raises(signing.UnusableKey) as unusable:
        signing.key_bytes("whsec_?")
    forbidden = posting.describe(outgoing.ForbiddenAddress())
    others = {outbox.GONE, str(unusable.value), forbidden, posting.describe(Exception())}
    assert {words for _, words in posting.ERROR_TEXTS} | others <= explained
