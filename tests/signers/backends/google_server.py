"""A stand-in for Google Cloud KMS that checks what the real one does: tokens (signature, claims) and checksums."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import google_crc32c
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.signers.backends.vault_server import Answer, Asked, StandIn

CLIENT_EMAIL = "relayer@test-project.iam.gserviceaccount.com"
PRIVATE_KEY_ID = "0123456789abcdef0123456789abcdef01234567"
NAME = "projects/test-project/locations/europe-west3/keyRings/relayers/cryptoKeys/treasury/cryptoKeyVersions/1"
AUDIENCE = "https://cloudkms.googleapis.com/"
EC_SIGN_SECP256K1_SHA256 = 31


class Refused(Exception):
    """An error answer, in Google's shape."""

    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.answer = refusal(status, name, message)


def refusal(status: int, name: str, message: str = "the text of Google", **headers: str) -> Answer:
    error = {"code": status, "status": name, "message": message}
    return Answer(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


class GoogleServer(StandIn):
    """One key version; `changes` are made to the true answers."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, service_account: rsa.RSAPublicKey) -> None:
        super().__init__()
        self.key = key
        self.service_account = service_account
        self.changes: dict[str, Any] = {}
        self.refusals: list[str] = []
        self.tokens: list[str] = []
        self.clock = time.time

    @property
    def requests(self) -> list[str]:
        return [f"{asked.method} {unquote(urlsplit(asked.path).path)}" for asked in self.asked]

    def respond(self, asked: Asked) -> Answer:
        url = urlsplit(asked.path)
        try:
            self.check_token(asked.headers["Authorization"])
            if "json;enum-encoding=int" not in parse_qs(url.query, separator="&").get("$alt", []):
                raise Refused(400, "INVALID_ARGUMENT", "this stand-in gives enums as numbers alone")
            if (asked.method, url.path) == ("GET", f"/v1/{NAME}/publicKey"):
                answer = self.public_key()
            elif (asked.method, url.path) == ("POST", f"/v1/{NAME}:asymmetricSign"):
                answer = self.asymmetric_sign(json.loads(asked.body))
            else:
                raise Refused(404, "NOT_FOUND", "no such key version")
        except Refused as refused:
            self.refusals.append(str(refused))
            return refused.answer
        merged = answer | self.changes
        return Answer(200, {name: value for name, value in merged.items() if value is not None})

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


def unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
