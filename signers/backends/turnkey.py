"""A key that never leaves Turnkey, which signs requests that are stamped with an API key.

The environment variable TURNKEY_API_URL, read at each call, overrides the address of the service.
"""

import json
import os
from time import sleep, time_ns
from typing import Any, ClassVar

from cryptography.hazmat.primitives.asymmetric import ec
from eth_keys import datatypes

from signers.backends.base import Library, Secp256k1Backend, SignerError, eth_key
from signers.backends.http import JsonApi, deadline, not_understood

STAMPER = Library("turnkey-api-key-stamper", "turnkey", ("turnkey_api_key_stamper",))
API_URL = "https://api.turnkey.com"
API = JsonApi("Turnkey", "TURNKEY_API_URL is not a valid URL.")

COMPLETED = "ACTIVITY_STATUS_COMPLETED"
CONSENSUS_NEEDED = "ACTIVITY_STATUS_CONSENSUS_NEEDED"
WAITING = {"ACTIVITY_STATUS_CREATED", "ACTIVITY_STATUS_PENDING", CONSENSUS_NEEDED}


class Turnkey(Secp256k1Backend):
    """A signature is an activity: usually complete in the first response, else polled a few times."""

    library = STAMPER
    poll_pauses: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0, 4.0)

    def check(self) -> None:
        self._public_key()
        # Only the library can check that the API keys are a pair.
        if STAMPER.is_installed():
            self._stamp("")

    def _public_key(self) -> datatypes.PublicKey:
        try:
            point = bytes.fromhex(self.config["public_key"].removeprefix("0x"))
            return eth_key(ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), point))
        except ValueError:
            raise SignerError("public_key is not a secp256k1 public key in hex.") from None

    def _sign(self, digest: bytes) -> tuple[int, int]:
        until = deadline()
        activity = self._activity("submit/sign_raw_payload", self._intent(digest), until)
        for pause in self.poll_pauses:
            if activity["status"] not in WAITING:
                break
            sleep(pause)
            activity = self._activity("query/get_activity", {"activityId": activity["id"]}, until)
        status = activity["status"]
        if status == CONSENSUS_NEEDED:
            # A retry would be a new activity, which needs the same approvals.
            raise SignerError("Turnkey's policies require more approvals for this signature.")
        if status in WAITING:
            raise SignerError("Turnkey did not complete the signature in time.", permanent=False)
        if status != COMPLETED:
            raise SignerError("Turnkey failed or rejected the signature.")
        return _signature(activity)

    def _intent(self, digest: bytes) -> dict[str, Any]:
        return {
            "type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2",
            "timestampMs": str(time_ns() // 1_000_000),
            "parameters": {
                "signWith": self.config["private_key_id"],
                "payload": digest.hex(),
                "encoding": "PAYLOAD_ENCODING_HEXADECIMAL",
                "hashFunction": "HASH_FUNCTION_NO_OP",
            },
        }

    def _activity(self, path: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        """Return the activity of a response. A retry has the same body and timestamp, so it is the same activity."""
        body = json.dumps({"organizationId": self.config["organization_id"], **request})
        stamp = self._stamp(body)
        url = f"{os.environ.get('TURNKEY_API_URL', API_URL).rstrip('/')}/public/v1/{path}"
        activity = API.call("POST", url, lambda: ({"X-Stamp": stamp}, body.encode()), until).get("activity")
        if not isinstance(activity, dict) or not all(isinstance(activity.get(name), str) for name in ("id", "status")):
            raise not_understood("Turnkey")
        return activity

    def _stamp(self, body: str) -> str:
        try:
            from turnkey_api_key_stamper import ApiKeyStamper, ApiKeyStamperConfig
        except ImportError:
            raise STAMPER.missing() from None
        stamper = ApiKeyStamper(ApiKeyStamperConfig(self.config["api_public_key"], self.config["api_private_key"]))
        try:
            stamp: str = stamper.stamp(body).stamp_header_value
        except ValueError:
            raise SignerError("api_private_key and api_public_key are not a P-256 key pair in hex.") from None
        return stamp


def _signature(activity: dict[str, Any]) -> tuple[int, int]:
    try:
        result = activity["result"]["signRawPayloadResult"]
        return int(result["r"], 16), int(result["s"], 16)
    except (KeyError, TypeError, ValueError):
        raise not_understood("Turnkey") from None
