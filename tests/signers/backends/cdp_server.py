"""A stand-in for Coinbase CDP's API on loopback: it verifies both JWTs of a request, and that it came once."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from eth_keys import datatypes

from tests.signers.backends.vault_server import Answer, Asked, StandIn

FRESH_SECONDS = 60


class CdpServer(StandIn):
    api_key_id = "organizations/7c1e/apiKeys/4b9f"
    key = datatypes.PrivateKey(bytes.fromhex("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"))
    address = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"
    api_key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    wallet_key = ec.derive_private_key(0xC0FFEE, ec.SECP256R1())

    def __init__(self) -> None:
        super().__init__()
        self.api_public_key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey = self.api_key.public_key()
        self.used: set[str] = set()
        self.answered: dict[str, tuple[bytes, Answer]] = {}

    @property
    def path(self) -> str:
        return f"/platform/v2/evm/accounts/{self.address}/sign"

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def respond(self, asked: Asked) -> Answer:
        uri = f"{asked.method} {asked.headers['Host']}{asked.path}"
        try:
            self._check_bearer(asked.headers["Authorization"], uri)
            self._check_wallet(asked.headers["X-Wallet-Auth"], uri, asked.body)
        except (jwt.InvalidTokenError, ValueError) as fault:
            return _error(401, "unauthorized", str(fault))
        if asked.path.lower() != self.path.lower():
            return _error(404, "not_found", "EVM account not found")
        once = asked.headers["X-Idempotency-Key"]
        body, answer = self.answered.setdefault(once, (asked.body, self._sign(json.loads(asked.body))))
        return answer if body == asked.body else _error(422, "idempotency_error", "another body")

    def _check_bearer(self, header: str, uri: str) -> None:
        scheme, token = header.split(" ")
        algorithm = "ES256" if isinstance(self.api_public_key, ec.EllipticCurvePublicKey) else "EdDSA"
        claims = self._claims(token, self.api_public_key, algorithm, uri)
        now = claims.pop("nbf")
        _expect("bearer", (scheme, claims), ("Bearer", {"sub": self.api_key_id, "iss": "cdp", "exp": now + 120}))
        header_fields = jwt.get_unverified_header(token)
        self._use(header_fields.pop("nonce"))
        _expect("header", header_fields, {"alg": algorithm, "kid": self.api_key_id, "typ": "JWT"})

    def _check_wallet(self, token: str, uri: str, body: bytes) -> None:
        claims = self._claims(token, self.wallet_key.public_key(), "ES256", uri)
        del claims["nbf"]
        self._use(claims.pop("jti"))
        canonical = json.dumps(json.loads(body), sort_keys=True, separators=(",", ":")).encode()
        _expect("wallet", claims, {"reqHash": hashlib.sha256(canonical).hexdigest()})

    def _claims(self, token: str, key: Any, algorithm: str, uri: str) -> dict[str, Any]:
        """Verify a JWT and what both have in common; return the rest of its claims."""
        claims: dict[str, Any] = jwt.decode(token, key, algorithms=[algorithm])
        _expect("uris", claims.pop("uris"), [uri])
        issued = claims.pop("iat")
        _expect("nbf", claims["nbf"], issued)
        _expect("age", abs(time.time() - issued) < FRESH_SECONDS, True)
        return claims

    def _use(self, once: str) -> None:
        _expect("replay", once in self.used or len(once) < 16, False)
        self.used.add(once)

    def _sign(self, body: dict[str, str]) -> Answer:
        if list(body) != ["hash"] or len(body["hash"]) != 66:
            return _error(400, "invalid_request", "a 32 byte hash is needed")
        signature = self.key.sign_msg_hash(bytes.fromhex(body["hash"].removeprefix("0x")))
        return Answer(200, {"signature": f"0x{signature.r:064x}{signature.s:064x}{signature.v + 27:02x}"})


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise ValueError(f"{what}: {found} is not {expected}")


def _error(status: int, kind: str, message: str) -> Answer:
    return Answer(status, {"errorType": kind, "errorMessage": message, "correlationId": "41deb8d59a9dc9a7-IAD"})
