"""A stand-in for Vault on loopback, and what it shares with the stand-ins for other services."""

from __future__ import annotations

import base64
import json
import logging
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from eth_keys import datatypes

from signers.backends.base import Secp256k1Backend, Signature, SignerError

# How long a request hangs: far longer than a client waits in the tests, so that one that waits gets the answer.
LONG = 10.0


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Message
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int
    content: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False

    @property
    def body(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else json.dumps(self.content).encode()


class StandIn(ThreadingHTTPServer):
    """A server that keeps what it was asked, and can be told to answer something else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.asked: list[Asked] = []
        self.connections = 0
        self._planned: list[tuple[str, Answer]] = []
        self._lock = threading.Lock()
        self._leave = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leave.set()
        self.shutdown()
        self.server_close()

    def get_request(self) -> Any:
        self.connections += 1
        return super().get_request()

    def plan(self, path: str, *answers: Answer) -> None:
        """Answer the next requests whose path contains this text with these, in turn."""
        self._planned += [(path, answer) for answer in answers]

    def unplan(self) -> None:
        self._planned.clear()

    def handle_asked(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            planned = next((plan for plan in self._planned if plan[0] in asked.path), None)
            if planned is None:
                return self.respond(asked)
            self._planned.remove(planned)
        _, answer = planned
        if answer.hang:
            self._leave.wait(LONG)
        return answer

    def respond(self, asked: Asked) -> Answer:
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    server: StandIn

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self.server.handle_asked(Asked(self.command, self.path, self.headers, body))
        self.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Say nothing: what is logged in a test is the service's."""


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.__dict__}")


@contextmanager
def everything_logged() -> Iterator[list[str]]:
    """Collect what is logged at any level, before the service's own log masks what looks like a secret."""
    handler, level = _Lines(), logging.root.level
    logging.root.handlers.insert(0, handler)
    logging.root.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logging.root.setLevel(level)
        logging.root.removeHandler(handler)


def failure(backend: Any) -> tuple[str, bool]:
    """Return the error of a signature that fails, and whether it is permanent."""
    sign = backend.sign_digest if isinstance(backend, Secp256k1Backend) else backend.sign
    with pytest.raises(SignerError) as caught:
        sign(bytes(range(32)))
    return str(caught.value), caught.value.permanent


def recovered_address(signature: Signature, digest: bytes) -> str:
    vrs = datatypes.Signature(vrs=(signature.recovery_id, signature.r, signature.s))
    address: str = vrs.recover_public_key_from_msg_hash(digest).to_checksum_address()
    return address


def all_that_shows(error: BaseException) -> str:
    """Return what a careless reporter would print of an error: its frames with their variables."""
    trace = traceback.TracebackException.from_exception(error, capture_locals=True)
    # The test's own frame comes first and holds the secrets by right.
    del trace.stack[0]
    return "".join([*trace.format(), repr(error)])


class VaultServer(StandIn):
    """Vault with the AppRole login, one KV v2 secret and one Transit key."""

    role_id = "0f6e2a4c-role"
    secret_id = "5b1d9e7a-secret"

    def __init__(self) -> None:
        super().__init__()
        self.namespace: str | None = "team-a"
        self.lease = 3600
        self.tokens: list[str] = []
        self.revoked: set[str] = set()
        self.secrets: dict[str, Any] = {}
        self.transit_key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))

    @property
    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]

    def respond(self, asked: Asked) -> Answer:
        if asked.headers["X-Vault-Request"] != "true":
            return _errors(400, "missing X-Vault-Request")
        if asked.headers["X-Vault-Namespace"] != self.namespace:
            return _errors(403, "permission denied")
        if asked.path == "/v1/auth/approle/login" and asked.method == "POST":
            return self._login(asked)
        if asked.headers["X-Vault-Token"] not in set(self.tokens) - self.revoked:
            return _errors(403, "permission denied")
        if asked.method == "GET":
            return self._secret(asked)
        if asked.path == "/v1/transit/sign/relayer-key":
            return self._signature(asked)
        return _errors(400, "signing key not found")

    def _login(self, asked: Asked) -> Answer:
        if asked.headers["X-Vault-Token"] is not None:
            return _errors(400, "a login has no token")
        if json.loads(asked.body) != {"role_id": self.role_id, "secret_id": self.secret_id}:
            return _errors(400, "invalid role or secret ID")
        self.tokens.append(f"hvs.token-{len(self.tokens) + 1}")
        return Answer(200, {"auth": {"client_token": self.tokens[-1], "lease_duration": self.lease}, "data": None})

    def _secret(self, asked: Asked) -> Answer:
        if asked.path not in self.secrets:
            return Answer(404, {"errors": []})
        return Answer(200, {"data": {"data": self.secrets[asked.path], "metadata": {"version": 1}}, "auth": None})

    def _signature(self, asked: Asked) -> Answer:
        (message,) = json.loads(asked.body).values()
        signature = self.transit_key.sign(base64.b64decode(message, validate=True))
        return Answer(
            200, {"data": {"key_version": 1, "signature": f"vault:v1:{base64.b64encode(signature).decode()}"}}
        )


def _errors(status: int, *errors: str) -> Answer:
    return Answer(status, {"errors": list(errors)})
