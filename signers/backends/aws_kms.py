"""A key that never leaves AWS KMS.

Credentials come from boto3's own chain (environment, shared files, the role of the machine), and the address of the
service from boto3's own settings, such as AWS_ENDPOINT_URL_KMS.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import utils
from cryptography.hazmat.primitives.serialization import load_der_public_key
from eth_keys import datatypes

from relayer_service.net.bounded import bounded_pools
from signers.backends import http
from signers.backends.base import Library, SignerError, public_key_of
from signers.backends.http import ClientBackend, Unavailable, deadline, retried

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError

BOTO3 = Library("boto3", "aws", ("boto3",))
# A part of a host name, as botocore checks it (validate_region_name).
REGION = re.compile(r"(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
BAD_REGION = "The region is not a name that AWS could have."
NOT_FOR_SIGNING = "The key in AWS KMS is not of the spec ECC_SECG_P256K1 for signing."

# What the error codes of AWS KMS mean; any other answer below 500 is a refusal too.
REFUSALS = {
    "AccessDeniedException": "AWS KMS does not let these credentials use the key.",
    "DisabledException": "The key is disabled in AWS KMS.",
    "ExpiredTokenException": "AWS KMS refused the credentials.",
    "IncompleteSignatureException": "AWS KMS refused the credentials.",
    "InvalidArnException": "AWS KMS has no key with this key_id in this region.",
    "InvalidClientTokenId": "AWS KMS refused the credentials.",
    "InvalidKeyUsageException": NOT_FOR_SIGNING,
    "InvalidSignatureException": "AWS KMS refused the credentials.",
    "KMSInvalidStateException": "The key cannot be used now: it is being made or deleted in AWS KMS.",
    "MissingAuthenticationTokenException": "AWS KMS refused the credentials.",
    "NotFoundException": "AWS KMS has no key with this key_id in this region.",
    "UnrecognizedClientException": "AWS KMS refused the credentials.",
    "UnsupportedOperationException": NOT_FOR_SIGNING,
}
THROTTLED = "ThrottlingException"


class AwsKms(ClientBackend):
    """An asymmetric KMS key of the spec ECC_SECG_P256K1."""

    provider = "AWS KMS"
    library = BOTO3

    def check(self) -> None:
        if not REGION.fullmatch(self.config["region"]):
            raise SignerError(BAD_REGION)

    def _public_key(self) -> datatypes.PublicKey:
        answer = self._call("get_public_key")
        try:
            key = public_key_of(load_der_public_key(answer["PublicKey"]))
        except (KeyError, ValueError, UnsupportedAlgorithm):
            raise self._not_understood() from None
        if key is None or answer.get("KeyUsage") != "SIGN_VERIFY":
            raise SignerError(NOT_FOR_SIGNING)
        return key

    def _sign(self, digest: bytes) -> tuple[int, int]:
        answer = self._call("sign", Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")
        try:
            return utils.decode_dss_signature(answer["Signature"])
        except (KeyError, ValueError):
            raise self._not_understood() from None

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        return retried(lambda _: self._try(operation, parameters), deadline())

    def _try(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any]:
        client = self._client()
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            answer: dict[str, Any] = getattr(client, operation)(KeyId=self.config["key_id"], **parameters)
        except ClientError as error:
            raise _refused(error) from None
        except BotoCoreError as error:
            raise _not_sent(error) from None
        except (ResponseParserError, AttributeError, TypeError, ValueError):
            raise self._not_understood() from None
        return answer

    def _connect(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError:
            raise BOTO3.missing() from None
        # One attempt: retries and their time are limited as for the other providers.
        options = Config(
            connect_timeout=http.CONNECT_SECONDS,
            read_timeout=http.ATTEMPT_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 1},
        )
        try:
            client = boto3.session.Session().client("kms", region_name=self.config["region"], config=options)
        except BotoCoreError as error:
            raise _not_sent(error) from None
        except ValueError:
            raise SignerError("The address of AWS KMS in AWS_ENDPOINT_URL_KMS is not a URL.") from None
        # botocore has no setting for the size and time of a whole answer.
        pools = client._endpoint.http_session._pool_classes_by_scheme
        pools.update(bounded_pools(pools, http.ATTEMPT_SECONDS, http.MAX_ANSWER_BYTES))
        return client


def _refused(error: ClientError) -> SignerError:
    """Return the error that an error answer stands for."""
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    if code == THROTTLED or status == 429:
        return Unavailable("AWS KMS takes no more requests just now.")
    if code in REFUSALS:
        return SignerError(REFUSALS[code])
    if status >= 500:
        return Unavailable("AWS KMS has a fault of its own just now.")
    return SignerError("AWS KMS refused the request.")


def _not_sent(error: BotoCoreError) -> SignerError:
    """Return why there is no answer."""
    from botocore import exceptions

    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return Unavailable("AWS KMS cannot be reached.")
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.MetadataRetrievalError):
        return SignerError("The AWS credentials cannot be fetched just now.", permanent=False)
    if isinstance(error, exceptions.InvalidRegionError):
        return SignerError(BAD_REGION)
    if isinstance(error, exceptions.ParamValidationError):
        return SignerError("The key_id is not one that AWS KMS could have.")
    return SignerError("There are no AWS credentials, or boto3's settings are wrong.")
