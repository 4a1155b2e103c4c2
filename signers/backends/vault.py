"""Keys in HashiCorp Vault, with an AppRole login: in the KV v2 engine, and in the Transit engine."""

import base64
import math
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar
from urllib.parse import quote

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.core.exceptions import ValidationError
from eth_keys import datatypes

from relayer_service.net import addresses, sessions
from signers.backends.base import Ed25519Backend, Secp256k1Backend, SignerError
from signers.backends.http import Content, JsonApi, Refused, deadline, held, not_understood
from signers.backends.local import Local

# API callers and staff choose the address, so no proxy of the environment is used.
API = JsonApi("Vault", "The address or namespace of Vault is not valid.", uses_proxies=False)
ED25519_HEX_DIGITS = 64
# The version of the key, and the 64 bytes of the signature in base64.
TRANSIT_SIGNATURE = re.compile(r"vault:v[0-9]+:([A-Za-z0-9+/]{86}==)")


@dataclass(frozen=True)
class Token:
    text: str = field(repr=False)
    expires: float


class Vault:
    """A Vault server with an AppRole login, which is reused until shortly before it expires."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._token: Token | None = None

    def check(self) -> None:
        try:
            addresses.split_http_url(self.config["address"])
        except ValidationError:
            raise SignerError("The address of Vault is not an http or https URL.") from None

    def call(self, method: str, path: str, body: bytes | None, until: float) -> dict[str, Any]:
        """Return the data of the response to a request that needs a login."""
        token = self._logged_in(until)
        try:
            return self._part("data", method, path, lambda: (self._headers(token), body), until)
        except Refused as fault:
            if fault.status != 403:
                raise
        # The token may have been revoked or used up: a second 403 is about the request.
        token = self._logged_in(until, instead_of=token)
        return self._part("data", method, path, lambda: (self._headers(token), body), until)

    def _logged_in(self, until: float, *, instead_of: Token | None = None) -> Token:
        with held(self._lock, "Vault", until):
            if self._token is None or self._token is instead_of or monotonic() >= self._token.expires:
                self._token = self._log_in(until)
            return self._token

    def _log_in(self, until: float) -> Token:
        started = monotonic()
        try:
            token = _token(self._part("auth", "POST", "auth/approle/login", self._login, until), started)
        except Refused:
            raise SignerError("Vault refused the AppRole login.") from None
        if token is None:
            raise not_understood("Vault")
        return token

    def _login(self) -> tuple[Mapping[str, str], bytes]:
        return self._headers(None), orjson.dumps({name: self.config[name] for name in ("role_id", "secret_id")})

    def _headers(self, token: Token | None) -> Mapping[str, str]:
        headers = {"X-Vault-Request": "true"}
        if self.config.get("namespace"):
            headers["X-Vault-Namespace"] = self.config["namespace"]
        if token:
            headers["X-Vault-Token"] = token.text
        return headers

    def _part(self, name: str, method: str, path: str, content: Content, until: float) -> dict[str, Any]:
        # Repeated slashes count as one, as in Vault's own client.
        path = "/".join(filter(None, path.split("/")))
        url = f"{self.config['address'].rstrip('/')}/v1/{quote(path)}"
        part = API.call(method, url, content, until).get(name)
        if not isinstance(part, dict):
            raise not_understood("Vault")
        return part


# These return None for a missing value, so that no frame with a secret among its variables raises.


def _token(login: dict[str, Any], started: float) -> Token | None:
    text, lease = login.get("client_token"), login.get("lease_duration")
    if not isinstance(text, str) or not text or not isinstance(lease, int):
        return None
    # A lease of 0 means that the token does not expire.
    return Token(text, started + lease - min(30.0, lease / 10) if lease > 0 else math.inf)


def _value(secret: dict[str, Any]) -> str | None:
    fields = secret.get("data")
    value = fields.get("value") if isinstance(fields, dict) else None
    return value.strip() if isinstance(value, str) else None


class VaultKv(Secp256k1Backend):
    """A key in hex, in the field `value` of the secret at `key_name`, used in this process.

    It is cached for `keep_seconds`, so that a key that is removed from Vault soon stops signing.
    """

    keep_seconds: ClassVar[float] = 60.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._vault = Vault(config)
        self._lock = threading.Lock()
        self._key: Local | None = None
        self._key_expires = 0.0

    def check(self) -> None:
        self._vault.check()

    def _public_key(self) -> datatypes.PublicKey:
        return self._held()._public_key()

    def _sign(self, digest: bytes) -> tuple[int, int]:
        return self._held()._sign(digest)

    def _held(self) -> Local:
        until = deadline()
        with held(self._lock, "Vault", until):
            key = self._key
            if key is None or monotonic() >= self._key_expires:
                key = self._key = self._read(until)
                self._key_expires = monotonic() + self.keep_seconds
                # For a key that is not used again.
                sessions.loop.call(self._forget, delay=self.keep_seconds)
            return key

    def _forget(self) -> None:
        # Without the lock, whose holder may be waiting for the loop that calls this.
        self._key = None

    def _read(self, until: float) -> Local:
        path = f"{self.config.get('mount_point', 'secret')}/data/{self.config['key_name']}"
        key = Local({"key": _value(self._vault.call("GET", path, None, until))})
        try:
            key.address()
        except SignerError:
            raise SignerError("The field `value` of the Vault secret is not a 32-byte secp256k1 key in hex.") from None
        return key


class VaultTransit(Ed25519Backend):
    """An Ed25519 key that never leaves the Transit engine, which signs messages with it."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._vault = Vault(config)

    def check(self) -> None:
        self._vault.check()
        self._public_key()

    def _public_key(self) -> Ed25519PublicKey:
        """Return the key in `pubkey`: 32 bytes in base64, as Vault shows them, or in hex."""
        text = self.config["pubkey"].removeprefix("0x")
        try:
            is_hex = len(text) == ED25519_HEX_DIGITS
            return Ed25519PublicKey.from_public_bytes(
                bytes.fromhex(text) if is_hex else base64.b64decode(text, validate=True)
            )
        except ValueError:
            raise SignerError("pubkey is not an Ed25519 public key in base64 or hex.") from None

    def _sign(self, message: bytes) -> bytes:
        path = f"{self.config.get('mount_point', 'transit')}/sign/{self.config['key_name']}"
        body = orjson.dumps({"input": base64.b64encode(message).decode()})
        answer = self._vault.call("POST", path, body, deadline())
        match = TRANSIT_SIGNATURE.fullmatch(str(answer.get("signature")))
        if match is None:
            raise not_understood("Vault")
        return base64.b64decode(match[1])
