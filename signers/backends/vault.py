"""A key in HashiCorp Vault's KV v2 engine: read with an AppRole login, used in this process.

The secret at `key_name` holds the key, in hex, in its field `value`.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, ClassVar
from urllib.parse import quote

import orjson
from django.core.exceptions import ValidationError
from eth_keys import datatypes

from relayer_service.net import addresses, outgoing
from signers.backends.base import Secp256k1Backend, SignerError
from signers.backends.http import Content, JsonApi, Refused, deadline, held, not_understood
from signers.backends.local import Local

FORBIDDEN = 403
# Callers and staff choose the address: no proxy of the environment may lead to it.
API = JsonApi("Vault", "The address or the namespace of Vault cannot be used.", uses_proxies=False)


@dataclass(frozen=True)
class Token:
    text: str = field(repr=False)
    expires: float


class Vault:
    """A Vault server, and the login of an AppRole, which is used until shortly before it expires."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._token: Token | None = None

    def check(self) -> None:
        """Raise SignerError for an address that no server can have."""
        try:
            addresses.split_http_url(self.config["address"])
        except ValidationError:
            raise SignerError("The address of Vault is not an http or https URL.") from None

    def ask(self, method: str, path: str, body: bytes | None, until: float) -> dict[str, Any]:
        """Return the data of the answer to a request that needs a login."""
        token = self._logged_in(until)
        try:
            return self._part("data", method, path, lambda: (self._headers(token), body), until)
        except Refused as fault:
            if fault.status != FORBIDDEN:
                raise
        # A token that was revoked or used up is forbidden everything: a new one shows which it is.
        token = self._logged_in(until, instead_of=token)
        return self._part("data", method, path, lambda: (self._headers(token), body), until)

    def _logged_in(self, until: float, *, instead_of: Token | None = None) -> Token:
        with held(self._lock, "Vault", until):
            if self._token is None or self._token is instead_of or monotonic() >= self._token.expires:
                self._token = self._log_in(until)
            return self._token

    def _log_in(self, until: float) -> Token:
        """Return a token for the AppRole."""
        asked = monotonic()
        try:
            token = _token(self._part("auth", "POST", "auth/approle/login", self._login, until), asked)
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
        """Return the part with this name of the answer to a request."""
        # Several slashes count as one, as in Vault's own client.
        path = "/".join(filter(None, path.split("/")))
        url = f"{self.config['address'].rstrip('/')}/v1/{quote(path)}"
        part = API.call(method, url, content, until).get(name)
        if not isinstance(part, dict):
            raise not_understood("Vault")
        return part


# These return None for what they do not find, so that no frame with a secret among its variables raises.


def _token(login: dict[str, Any], asked: float) -> Token | None:
    text, lease = login.get("client_token"), login.get("lease_duration")
    if not isinstance(text, str) or not text or not isinstance(lease, int):
        return None
    # A lease of 0 means that the token does not expire.
    return Token(text, asked + lease - min(30.0, lease / 10) if lease > 0 else math.inf)


def _value(secret: dict[str, Any]) -> str | None:
    fields = secret.get("data")
    value = fields.get("value") if isinstance(fields, dict) else None
    return value.strip() if isinstance(value, str) else None


class VaultKv(Secp256k1Backend):
    """The key is read once and forgotten after `keep_seconds`: one that is withdrawn in Vault signs no longer."""

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
                outgoing.loop.call(self._forget, delay=self.keep_seconds)
            return key

    def _forget(self) -> None:
        # Without the lock, whose holder may be waiting for the loop that calls this.
        self._key = None

    def _read(self, until: float) -> Local:
        path = f"{self.config.get('mount_point', 'secret')}/data/{self.config['key_name']}"
        key = Local({"key": _value(self._vault.ask("GET", path, None, until))})
        try:
            key.address()
        except SignerError:
            raise SignerError(
                "The secret in Vault has no secp256k1 private key, 32 bytes in hex, in its field `value`."
            ) from None
        return key
