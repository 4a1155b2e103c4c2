"""A key that never leaves AWS KMS.

boto3 finds the credentials (environment, shared files, the role of the machine) and the address of the service, such
as AWS_ENDPOINT_URL_KMS.
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
from signers.backends.http import ClientBackend, not_understood, refusal, unreachable

if TYPE_CHECKING:
    from botocore.exceptions import BotoCoreError, ClientError

BOTO3 = Library("boto3", "aws", ("boto3",))
# A part of a host name, as botocore checks it (validate_region_name).
REGION = re.compile(r"(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
BAD_REGION = "The region is not a valid AWS region name."
BAD_CREDENTIALS = "AWS KMS refused the credentials."
NOT_FOR_SIGNING = "The key in AWS KMS is not a signing key of the spec ECC_SECG_P256K1."
NOT_FOUND = "AWS KMS has no key with this key_id in this region."

# Error texts by the error code of AWS KMS.
REFUSALS = {
    "AccessDeniedException": "AWS KMS does not allow these credentials to use the key.",
    "DisabledException": "The key is disabled in AWS KMS.",
    "ExpiredTokenException": BAD_CREDENTIALS,
    "IncompleteSignatureException": BAD_CREDENTIALS,
    "InvalidArnException": NOT_FOUND,
    "InvalidClientTokenId": BAD_CREDENTIALS,
    "InvalidKeyUsageException": NOT_FOR_SIGNING,
    "InvalidSignatureException": BAD_CREDENTIALS,
    "KMSInvalidStateException": "The key cannot be used now: AWS KMS is creating or deleting it.",
    "MissingAuthenticationTokenException": BAD_CREDENTIALS,
    "NotFoundException": NOT_FOUND,
    "UnrecognizedClientException": BAD_CREDENTIALS,
    "UnsupportedOperationException": NOT_FOR_SIGNING,
}


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
            raise not_understood(self.provider) from None
        if key is None or answer.get("KeyUsage") != "SIGN_VERIFY":
            raise SignerError(NOT_FOR_SIGNING)
        return key

    def _sign(self, digest: bytes) -> tuple[int, int]:
        answer = self._call("sign", Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")
        try:
            return utils.decode_dss_signature(answer["Signature"])
        except (KeyError, ValueError):
            raise not_understood(self.provider) from None

    def _try(self, operation: str, **parameters: Any) -> dict[str, Any]:
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
            raise not_understood(self.provider) from None
        return answer

    def _connect(self) -> Any:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError:
            raise BOTO3.missing() from None
        # A single attempt: retries are the same as for the other providers.
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
            raise SignerError("AWS_ENDPOINT_URL_KMS is not a valid URL.") from None
        # botocore has no setting for the size and duration of a whole response.
        pools = client._endpoint.http_session._pool_classes_by_scheme
        pools.update(bounded_pools(pools, http.ATTEMPT_SECONDS, http.MAX_ANSWER_BYTES))
        return client


def _refused(error: ClientError) -> SignerError:
    code = error.response.get("Error", {}).get("Code", "")
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    if code in REFUSALS and status != 429:
        return SignerError(REFUSALS[code])
    return refusal(AwsKms.provider, 429 if code == "ThrottlingException" else status, {})


def _not_sent(error: BotoCoreError) -> SignerError:
    from botocore import exceptions

    if isinstance(error, exceptions.ConnectionError | exceptions.HTTPClientError):
        return unreachable(AwsKms.provider)
    if isinstance(error, exceptions.CredentialRetrievalError | exceptions.MetadataRetrievalError):
        return SignerError("The AWS credentials are temporarily unavailable.", permanent=False)
    if isinstance(error, exceptions.InvalidRegionError):
        return SignerError(BAD_REGION)
    if isinstance(error, exceptions.ParamValidationError):
        return SignerError("The key_id is not valid in AWS KMS.")
    if not isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        return SignerError("The AWS configuration of boto3 is not valid.")
    return SignerError("No AWS credentials found. Set AWS_ACCESS_KEY_ID or attach a role.")
