"""A key in HashiCorp Vault's KV v2 engine: read with an AppRole login, used in this process.

The secret at `key_name` holds the key, in hex, in its field `value`.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, ClassVar, NamedTuple

from eth_keys import datatypes

from signers.backends.base import Secp256k1Backend, SignerError
from signers.backends.http import (
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    Refused,
    not_understood,
    refusal,
    retried,
    unreachable,
)
from signers.backends.local import Local

FORBIDDEN = 403

# Made with a client of hvac, which has no types.
Request = Callable[[Any], Any]


class Token(NamedTuple):
    text: str
    lease: int


class Vault:
    """A Vault server and the login of one AppRole to it, which is used until shortly before it ends."""

    read_timeout: ClassVar[float] = READ_TIMEOUT

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._client: Any = None
        self._ends = 0.0

    def ask(self, request: Request) -> dict[str, Any]:
        """Make a request that needs a login, and give the data of the answer."""
        client = self._logged_in()
        try:
            return self._part("data", request, client)
        except Refused as fault:
            if fault.status != FORBIDDEN:
                raise
        # A token that was revoked or used up before its time is forbidden everything: a new one tells.
        return self._part("data", request, self._logged_in(instead_of=client))

    def _logged_in(self, *, instead_of: Any = None) -> Any:
        with self._lock:
            if self._client is None or self._client is instead_of or monotonic() >= self._ends:
                self._log_in()
            return self._client

    def _log_in(self) -> None:
        """Trade the AppRole for a token.

        Each token gets a client of its own, so that a login changes nothing under a request that is on its way. The
        clients share their connections.
        """
        session = self._client.session if self._client else self._new_client().session
        asked = monotonic()
        try:
            token = _token(self._part("auth", self._request_login, self._new_client(session=session)))
        except Refused:
            raise SignerError("Vault refused the AppRole login.", permanent=True) from None
        if token is None:
            raise not_understood("Vault")
        self._client = self._new_client(token=token.text, session=session)
        # A lease of 0 is a token that does not end.
        self._ends = asked + token.lease - min(30.0, token.lease / 10) if token.lease > 0 else math.inf

    def _request_login(self, client: Any) -> Any:
        return client.auth.approle.login(self.config["role_id"], self.config["secret_id"], use_token=False)

    def _new_client(self, *, token: str = "", session: Any = None) -> Any:
        try:
            import hvac
        except ImportError:
            raise SignerError(
                "hvac is not installed: pip install 'relayer-management-service[vault]'", permanent=True
            ) from None
        # An empty token keeps hvac from looking for one in the environment and the home directory.
        return hvac.Client(
            url=self.config["address"],
            token=token,
            session=session,
            namespace=self.config.get("namespace"),
            timeout=(CONNECT_TIMEOUT, self.read_timeout),
            ignore_exceptions=True,
        )

    def _part(self, name: str, request: Request, client: Any) -> dict[str, Any]:
        """Make a request and give the part of the answer with this name."""
        part = retried(lambda: self._answer(request, client)).get(name)
        if not isinstance(part, dict):
            raise not_understood("Vault")
        return part

    def _answer(self, request: Request, client: Any) -> dict[str, Any]:
        from requests import RequestException, Response

        try:
            answer = request(client)
        except ValueError:
            raise SignerError("The address or the namespace of Vault cannot be used.", permanent=True) from None
        except RequestException:
            raise unreachable("Vault") from None
        # hvac gives the JSON of a success, and of everything else the response itself.
        if isinstance(answer, Response):
            raise refusal("Vault", answer.status_code, answer.headers)
        if not isinstance(answer, dict):
            raise not_understood("Vault")
        return answer


# These give nothing for what they do not find, so that no frame with a secret among its variables raises.


def _token(login: dict[str, Any]) -> Token | None:
    text, lease = login.get("client_token"), login.get("lease_duration")
    return Token(text, lease) if isinstance(text, str) and text and isinstance(lease, int) else None


def _value(secret: dict[str, Any]) -> str | None:
    fields = secret.get("data")
    value = fields.get("value") if isinstance(fields, dict) else None
    return value.strip() if isinstance(value, str) else None


class VaultKv(Secp256k1Backend):
    """The key is read once and forgotten after a while: one that is withdrawn in Vault does not sign for longer."""

    keep_seconds: ClassVar[float] = 60.0

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._vault = Vault(config)
        self._lock = threading.Lock()
        self._key: Local | None = None

    def _public_key(self) -> datatypes.PublicKey:
        return self._held()._public_key()

    def _sign(self, digest: bytes) -> tuple[int, int]:
        return self._held()._sign(digest)

    def _held(self) -> Local:
        with self._lock:
            if self._key is None:
                self._key = self._read()
                clock = threading.Timer(self.keep_seconds, self._forget)
                clock.daemon = True
                clock.start()
            return self._key

    def _forget(self) -> None:
        with self._lock:
            self._key = None

    def _read(self) -> Local:
        held = Local({"key": _value(self._vault.ask(self._read_secret))})
        try:
            held.address()
        except SignerError:
            raise SignerError(
                "The secret in Vault has no secp256k1 private key, 32 bytes in hex, in its field `value`.",
                permanent=True,
            ) from None
        return held

    def _read_secret(self, client: Any) -> Any:
        return client.secrets.kv.v2.read_secret_version(
            path=self.config["key_name"],
            mount_point=self.config.get("mount_point", "secret"),
            raise_on_deleted_version=True,
        )
