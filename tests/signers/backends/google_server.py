"""A stand-in for Google Cloud KMS that checks what the real one does: tokens (signature, claims) and checksums."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CLIENT_EMAIL = "relayer@test-project.iam.gserviceaccount.com"
PRIVATE_KEY_ID = "0123456789abcdef0123456789abcdef01234567"
NAME = "projects/test-project/locations/europe-west3/keyRings/relayers/cryptoKeys/treasury/cryptoKeyVersions/1"
AUDIENCE = "https://cloudkms.googleapis.com/"
EC_SIGN_SECP256K1_SHA256 = 31

Answer = tuple[int, bytes, dict[str, str]]


class Refused(Exception):
    """An error answer, in Google's shape."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(status, name, message)


def refusal(status: int, name: str, message: str = "the text of Google", **headers: str) -> Answer:
    body = {"error": {"code": status, "status": name, "message": message}}
    return status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()}


class GoogleServer(ThreadingHTTPServer):
    """One key version; `first_answers` come before the true ones, `changes` are made to the true ones."""

    daemon_threads = True

    def __init__(self, key: ec.EllipticCurvePrivateKey, service_account: rsa.RSAPublicKey) -> None:
        super().__init__(("127.0.0.1", 0), GoogleHandler)
        self.key = key
        self.service_account = service_account
        self.first_answers: list[Answer] = []
        self.changes: dict[str, Any] = {}
        self.requests: list[str] = []
        self.refusals: list[str] = []
        self.tokens: list[str] = []
        self.connections = 0
        self.clock = time.time
        self.answer_again = threading.Event()
        self.answer_again.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, method: str, target: str, authorization: str, body: bytes) -> Answer:
        url = urlsplit(target)
        self.requests.append(f"{method} {unquote(url.path)}")
        self.answer_again.wait()
        if self.first_answers:
            return self.first_answers.pop(0)
        try:
            self.check_token(authorization)
            if "json;enum-encoding=int" not in parse_qs(url.query, separator="&").get("$alt", []):
                raise Refused(400, "INVALID_ARGUMENT", "this stand-in gives enums as numbers alone")
            if (method, url.path) == ("GET", f"/v1/{NAME}/publicKey"):
                answer = self.public_key()
            elif (method, url.path) == ("POST", f"/v1/{NAME}:asymmetricSign"):
                answer = self.asymmetric_sign(json.loads(body))
            else:
                raise Refused(404, "NOT_FOUND", "no such key version")
        except Refused as refused:
            self.refusals.append(str(refused))
            return refused.answer
        merged = answer | self.changes
        return 200, json.dumps({name: value for name, value in merged.items() if value is not None}).encode(), {}

    def check_token(self, authorization: str) -> None:
        """Check a self-signed JWT as https://google.aip.dev/auth/4111 describes it."""
        scheme, _, token = authorization.partition(" ")
        self.tokens.append(token)
        try:
            signed, _, signature = token.rpartition(".")
            header, claims = (json.loads(unpadded(part)) for part in signed.split("."))
            self.service_account.verify(unpadded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        except (InvalidSignature, ValueError):
            raise Refused(401, "UNAUTHENTICATED", "the token is not signed by the service account") from None
        now = self.clock()
        valid = {
            "scheme": scheme == "Bearer",
            "header": header == {"typ": "JWT", "alg": "RS256", "kid": PRIVATE_KEY_ID},
            "iss": claims.get("iss") == CLIENT_EMAIL,
            "sub": claims.get("sub") == CLIENT_EMAIL,
            "aud": claims.get("aud") == AUDIENCE,
            "iat": claims.get("iat", now + 61) <= now + 60,
            "exp": now < claims.get("exp", 0) <= claims.get("iat", 0) + 3600,
        }
        if wrong := [name for name, good in valid.items() if not good]:
            raise Refused(401, "UNAUTHENTICATED", f"wrong in the token: {', '.join(wrong)}")

    def public_key(self) -> dict[str, Any]:
        pem = self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return {
            "name": NAME,
            "pem": pem.decode(),
            "pemCrc32c": str(google_crc32c.value(pem)),
            "algorithm": EC_SIGN_SECP256K1_SHA256,
            "protectionLevel": 2,
        }

    def asymmetric_sign(self, request: dict[str, Any]) -> dict[str, Any]:
        digest = base64.b64decode(request["digest"]["sha256"])
        if request.get("digestCrc32c") != str(google_crc32c.value(digest)):
            raise Refused(400, "INVALID_ARGUMENT", "the checksum of the digest is wrong")
        signature = self.key.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
        return {
            "name": NAME,
            "signature": base64.b64encode(signature).decode(),
            "signatureCrc32c": str(google_crc32c.value(signature)),
            "verifiedDigestCrc32c": True,
            "protectionLevel": 2,
        }


class GoogleHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: GoogleServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def respond(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        authorization = self.headers.get("Authorization", "")
        status, answer, headers = self.server.answer(self.command, self.path, authorization, body)
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:
            self.close_connection = True  # the client gave up

    def do_GET(self) -> None:
        self.respond()

    def do_POST(self) -> None:
        self.respond()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextmanager
def running(server: GoogleServer) -> Iterator[GoogleServer]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.answer_again.set()
            server.shutdown()
            thread.join()
