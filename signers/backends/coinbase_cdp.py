"""An account of Coinbase CDP, which signs requests with two JWTs: one of the API key and one of the wallet.

The environment variable CDP_API_URL, read at each call, overrides the address of the service.
"""

import base64
import hashlib
import json
import os
import re
import secrets
import uuid
from time import time as now
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key
from eth_keys import datatypes

from signers.backends.base import Library, Secp256k1Backend, SignerError, recover
from signers.backends.http import JsonApi, deadline, not_understood

PYJWT = Library("PyJWT", "coinbase", ("jwt",))
API_URL = "https://api.cdp.coinbase.com/platform"
API = JsonApi("Coinbase CDP", "CDP_API_URL is not a valid URL.")
TOKEN_SECONDS = 120
ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
SIGNATURE = re.compile(r"(?:0x)?([0-9a-fA-F]{64})([0-9a-fA-F]{64})[0-9a-fA-F]{2}")

# CDP does not return public keys. One is recovered from a signature of this digest, which is not of a transaction.
INTRODUCTION = hashlib.sha256(b"relayer-management-service: the public key of this account").digest()


class CoinbaseCdp(Secp256k1Backend):
    library = PYJWT

    def check(self) -> None:
        self._address()
        self._keys()

    def _public_key(self) -> datatypes.PublicKey:
        r, s = self._sign(INTRODUCTION)
        for _, public_key in recover(INTRODUCTION, r, s):
            if public_key.to_address() == self.config["account_address"].lower():
                return public_key
        raise SignerError("The signature of Coinbase CDP was not made by account_address.")

    def _sign(self, digest: bytes) -> tuple[int, int]:
        url = f"{os.environ.get('CDP_API_URL', API_URL).rstrip('/')}/v2/evm/accounts/{self._address()}/sign"
        # Canonical JSON, as its hash is signed too: sorted keys, no spaces.
        body = json.dumps({"hash": f"0x{digest.hex()}"}, sort_keys=True, separators=(",", ":")).encode()
        # The same for every attempt, so that CDP signs once; each JWT can be used only once.
        key = {"X-Idempotency-Key": str(uuid.uuid4())}
        signature = API.call("POST", url, lambda: (key | self._credentials(url, body), body), deadline()).get(
            "signature"
        )
        match = SIGNATURE.fullmatch(str(signature))
        if match is None:
            raise not_understood(API.provider)
        return int(match[1], 16), int(match[2], 16)

    def _address(self) -> str:
        address: str = self.config["account_address"]
        if ADDRESS.fullmatch(address) is None:
            raise SignerError("account_address is not an EVM address.")
        return address

    def _keys(self) -> tuple[EllipticCurvePrivateKey | Ed25519PrivateKey, EllipticCurvePrivateKey]:
        api_key = _api_key(self.config["api_key_secret"])
        if api_key is None:
            raise SignerError("api_key_secret is neither an Ed25519 key in base64 nor a P-256 key in PEM.")
        wallet_key = _wallet_key(self.config["wallet_secret"])
        if wallet_key is None:
            raise SignerError("wallet_secret is not a P-256 key in DER and base64.")
        return api_key, wallet_key

    def _credentials(self, url: str, body: bytes) -> dict[str, str]:
        try:
            import jwt
        except ImportError:
            raise PYJWT.missing() from None
        api_key, wallet_key = self._keys()
        issued = int(now())
        parts = urlsplit(url)
        common = {"uris": [f"POST {parts.netloc}{parts.path}"], "iat": issued, "nbf": issued}
        key_id = self.config["api_key_id"]
        bearer = jwt.encode(
            {**common, "sub": key_id, "iss": "cdp", "exp": issued + TOKEN_SECONDS},
            api_key,
            algorithm="EdDSA" if isinstance(api_key, Ed25519PrivateKey) else "ES256",
            headers={"kid": key_id, "nonce": secrets.token_hex(16)},
        )
        wallet = jwt.encode(
            {**common, "jti": str(uuid.uuid4()), "reqHash": hashlib.sha256(body).hexdigest()},
            wallet_key,
            algorithm="ES256",
        )
        return {"Authorization": f"Bearer {bearer}", "X-Wallet-Auth": wallet}


# These return None for a bad key, so that no frame with a secret among its variables raises.


def _api_key(secret: str) -> EllipticCurvePrivateKey | Ed25519PrivateKey | None:
    """Return an API key in either format of CDP: PEM, or the 64 bytes of an Ed25519 key pair in base64."""
    try:
        if secret.lstrip().startswith("-----BEGIN"):
            # A key from CDP's JSON file that passed through a shell may have \n for newlines.
            return _p256(load_pem_private_key(secret.replace("\\n", "\n").encode(), password=None))
        pair = base64.b64decode(secret, validate=True)
        return Ed25519PrivateKey.from_private_bytes(pair[:32]) if len(pair) == 64 else None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _wallet_key(secret: str) -> EllipticCurvePrivateKey | None:
    try:
        return _p256(load_der_private_key(base64.b64decode(secret, validate=True), password=None))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _p256(key: object) -> EllipticCurvePrivateKey | None:
    return key if isinstance(key, EllipticCurvePrivateKey) and isinstance(key.curve, SECP256R1) else None
