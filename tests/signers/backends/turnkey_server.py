"""A stand-in for Turnkey's API on loopback: it verifies stamps, and keeps an activity for each different request."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from eth_keys import datatypes

from tests.signers.backends.vault_server import Answer, Asked, StandIn

FRESH_MS = 60_000
SUBMIT = "/public/v1/submit/sign_raw_payload"
QUERY = "/public/v1/query/get_activity"


class TurnkeyServer(StandIn):
    organization_id = "9a2c7f1e-organization"
    private_key_id = "3d5b8c60-private-key"
    api_public_key = "037aa5c20ce88121e623c8f3e1dfb8fe1ea7d382ba8fb81512ade9732bbe072f1f"
    key = datatypes.PrivateKey(bytes.fromhex("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"))

    def __init__(self) -> None:
        super().__init__()
        self.activities: dict[str, dict[str, Any]] = {}
        # What activities are told to be, in turn, before they are done.
        self.states: list[str] = []

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def respond(self, asked: Asked) -> Answer:
        body = json.loads(asked.body)
        if not self._is_stamped(asked):
            return _error(401, 16, "request not authorized")
        if body["organizationId"] != self.organization_id:
            return _error(403, 7, "no such organization")
        if asked.path == SUBMIT:
            return self._submit(asked.body, body)
        if asked.path == QUERY and set(body) == {"organizationId", "activityId"}:
            return self._told(self.activities[body["activityId"]])
        return _error(404, 5, "no such path")

    def _is_stamped(self, asked: Asked) -> bool:
        """Verify the stamp over the bytes that came, as Turnkey does."""
        value = asked.headers["X-Stamp"]
        if value.endswith("="):
            return False
        stamp = json.loads(base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)))
        signature = bytes.fromhex(stamp.pop("signature"))
        if stamp != {"publicKey": self.api_public_key, "scheme": "SIGNATURE_SCHEME_TK_API_P256"}:
            return False
        point = bytes.fromhex(self.api_public_key)
        try:
            ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point).verify(
                signature, asked.body, ec.ECDSA(SHA256())
            )
        except InvalidSignature:
            return False
        return True

    def _submit(self, raw: bytes, body: dict[str, Any]) -> Answer:
        if abs(time.time() * 1000 - int(body.pop("timestampMs"))) > FRESH_MS:
            return _error(400, 3, "timestamp too old")
        parameters = body.pop("parameters")
        if body != {"organizationId": self.organization_id, "type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"}:
            return _error(400, 3, "bad request")
        digest = bytes.fromhex(parameters.pop("payload"))
        if parameters.pop("signWith") != self.private_key_id:
            return _error(404, 5, "private key not found")
        if parameters != {"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}:
            return _error(400, 3, "bad parameters")
        signature = self.key.sign_msg_hash(digest)
        result = {"r": f"{signature.r:064x}", "s": f"{signature.s:064x}", "v": f"{signature.v:02x}"}
        fingerprint = hashlib.sha256(raw).hexdigest()
        activity = {"id": fingerprint, "result": {"signRawPayloadResult": result}}
        return self._told(self.activities.setdefault(fingerprint, activity))

    def _told(self, activity: dict[str, Any]) -> Answer:
        if self.states:
            return Answer(200, {"activity": {"id": activity["id"], "status": self.states.pop(0), "result": {}}})
        return Answer(200, {"activity": {**activity, "status": "ACTIVITY_STATUS_COMPLETED"}})


def _error(status: int, code: int, message: str) -> Answer:
    return Answer(status, {"code": code, "message": message, "details": []})
