"""A key that never leaves Google Cloud KMS.

The official client uses REST: one host, ordinary proxies, safe in forked processes. The service account signs its own
access tokens (https://google.aip.dev/auth/4111), so no token service is used and the `token_uri` in the config is
never called. The environment variable GOOGLE_KMS_ENDPOINT overrides the address of the service.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import rsa, utils
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from eth_keys import datatypes

from relayer_service.net.bounded import bounded_adapter
from signers.backends import http
from signers.backends.base import Library, SignerError, public_key_of
from signers.backends.http import ClientBackend, not_understood, refusal, unreachable

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.credentials import Credentials
    from google.cloud.kms_v1 import KeyManagementServiceClient

CLIENT = Library("google-cloud-kms", "google", ("google.cloud.kms_v1", "google_crc32c"))
AUDIENCE = "https://cloudkms.googleapis.com/"
TOKEN_SECONDS = 3600
UNIVERSE = "googleapis.com"
# A part of a resource name, without characters that lead to another resource.
NAME_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")
VERSION = re.compile(r"[1-9][0-9]{0,17}")

REFUSALS = {
    400: "Google Cloud KMS refused the request: the key version is disabled or destroyed, or is not for signing.",
    401: "Google Cloud KMS refused the service account.",
    403: "Google Cloud KMS does not allow this service account to use the key.",
    404: "Google Cloud KMS has no such key version.",
}


class GoogleKms(ClientBackend):
    """A key version of the algorithm EC_SIGN_SECP256K1_SHA256."""

    provider = "Google Cloud KMS"
    library = CLIENT

    def check(self) -> None:
        self._name()
        self._service_account()

    def _public_key(self) -> datatypes.PublicKey:
        client = self._client()
        from google.cloud.kms_v1 import CryptoKeyVersion

        name = self._name()
        answer = self._call(client.get_public_key, {"name": name})
        _check_intact(answer.name == name, answer.pem.encode(), answer.pem_crc32c)
        if answer.algorithm != CryptoKeyVersion.CryptoKeyVersionAlgorithm.EC_SIGN_SECP256K1_SHA256:
            raise SignerError("The algorithm of the key in Google Cloud KMS is not EC_SIGN_SECP256K1_SHA256.")
        try:
            key = public_key_of(load_pem_public_key(answer.pem.encode()))
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if key is None:
            raise not_understood(self.provider)
        return key

    def _sign(self, digest: bytes) -> tuple[int, int]:
        client = self._client()
        from google_crc32c import value as crc32c

        name = self._name()
        request = {"name": name, "digest": {"sha256": digest}, "digest_crc32c": crc32c(digest)}
        answer = self._call(client.asymmetric_sign, request)
        echoed = answer.name == name and answer.verified_digest_crc32c
        _check_intact(echoed, answer.signature, answer.signature_crc32c)
        try:
            return utils.decode_dss_signature(answer.signature)
        except ValueError:
            raise not_understood(self.provider) from None

    def _name(self) -> str:
        key = self._section("key")
        parts = {
            "projects": ("key" if "project_id" in key else "service_account", "project_id", ""),
            "locations": ("key", "location", "global"),
            "keyRings": ("key", "key_ring_id", ""),
            "cryptoKeys": ("key", "key_id", ""),
        }
        path = ""
        for kind, (section, field, default) in parts.items():
            value = self._text(section, field, default)
            if not NAME_PART.fullmatch(value):
                raise SignerError(f"{section}.{field} has a character that is not allowed in a name.")
            path += f"{kind}/{value}/"
        version = str(key.get("key_version", 1))
        if not VERSION.fullmatch(version):
            raise SignerError("key.key_version must be an integer of at least 1.")
        return f"{path}cryptoKeyVersions/{version}"

    def _section(self, section: str) -> Mapping[str, Any]:
        value = self.config.get(section)
        if not isinstance(value, Mapping):
            raise SignerError(f"{section} is missing.")
        return value

    def _text(self, section: str, field: str, default: str = "") -> str:
        value = self._section(section).get(field, default)
        if value == "":
            raise SignerError(f"{section}.{field} is missing.")
        if not isinstance(value, str):
            raise SignerError(f"{section}.{field} must be a string.")
        return value

    def _try(self, method: Callable[..., Any], request: dict[str, Any]) -> Any:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.protobuf.json_format import ParseError  # type: ignore[import-untyped]  # protobuf has no types
        from requests.exceptions import RequestException

        try:
            return method(request=request, retry=None, timeout=_with_timeouts)
        except GoogleAPICallError as error:
            raise _refused(error) from None
        # Before ValueError, of which some are subclasses.
        except RequestException:
            raise unreachable(self.provider) from None
        except GoogleAuthError:
            raise SignerError("Google's client cannot use the service account.") from None
        except (ParseError, ValueError):
            raise not_understood(self.provider) from None

    def _connect(self) -> KeyManagementServiceClient:
        try:
            import google_crc32c  # noqa: F401
            from google.auth.exceptions import GoogleAuthError
            from google.cloud.kms_v1 import KeyManagementServiceClient
        except ImportError:
            raise CLIENT.missing() from None
        options = {"api_endpoint": os.environ.get("GOOGLE_KMS_ENDPOINT") or AUDIENCE.rstrip("/")}
        credentials = _self_signing(*self._service_account())
        try:
            client = KeyManagementServiceClient(credentials=credentials, transport="rest", client_options=options)
        except (GoogleAuthError, ValueError):
            raise SignerError("The environment variables of Google's client are not valid.") from None
        # Google's client has no setting for the size and duration of a whole response.
        transport: Any = client.transport
        for prefix in ("http://", "https://"):
            transport._session.mount(prefix, bounded_adapter(http.ATTEMPT_SECONDS, http.MAX_ANSWER_BYTES))
        return client

    def _service_account(self) -> tuple[rsa.RSAPrivateKey, str, str]:
        """Return the key of the service account, the key's id, and the account's email."""
        if self._text("service_account", "universe_domain", UNIVERSE) != UNIVERSE:
            raise SignerError(f"service_account.universe_domain must be {UNIVERSE}.")
        email = self._text("service_account", "client_email")
        key_id = self._text("service_account", "private_key_id")
        try:
            key = load_pem_private_key(self._text("service_account", "private_key").encode(), password=None)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, rsa.RSAPrivateKey):
            raise SignerError("service_account.private_key is not an RSA private key in PEM.")
        return key, key_id, email


def _self_signing(key: rsa.RSAPrivateKey, key_id: str, email: str) -> Credentials:
    """Return credentials whose tokens the service account signs itself.

    The class of Google's library for this also calls another host from a thread, which cannot be disabled.
    """
    from google.auth import crypt, jwt
    from google.auth.credentials import Credentials

    signer = crypt.RSASigner(key, key_id)  # type: ignore[no-untyped-call]  # google-auth has no types

    class SelfSigning(Credentials):
        def refresh(self, request: object) -> None:
            now = int(time.time())
            expiry = now + TOKEN_SECONDS
            claims = {"iss": email, "sub": email, "aud": AUDIENCE, "iat": now, "exp": expiry}
            self.token = jwt.encode(signer, claims).decode()  # type: ignore[no-untyped-call]  # as above
            self.expiry = datetime.fromtimestamp(expiry, UTC).replace(tzinfo=None)

    return SelfSigning()  # type: ignore[no-untyped-call]  # as above


def _with_timeouts(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call with separate timeouts for connecting and reading; Google's client has one for both."""
    return functools.partial(call, timeout=(http.CONNECT_SECONDS, http.ATTEMPT_SECONDS))


def _refused(error: GoogleAPICallError) -> SignerError:
    if error.code in REFUSALS:
        return SignerError(REFUSALS[error.code])
    headers = {} if error.response is None else error.response.headers
    return refusal(GoogleKms.provider, error.code or 500, headers)


def _check_intact(echoed: bool, data: bytes, checksum: int | None) -> None:
    from google_crc32c import value as crc32c

    if not echoed or checksum is None or crc32c(data) != checksum:
        raise SignerError("The response of Google Cloud KMS was corrupted in transit.", permanent=False)
