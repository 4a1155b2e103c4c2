"""The codes of errors: in the header `Error-Code`, and of each fault of a bad request. `docs/errors.md` lists them."""

from enum import StrEnum
from http import HTTPStatus
from typing import Self

HEADER = "Error-Code"


class ErrorCode(StrEnum):
    """A stable name of an error, with the statuses of its responses and its meaning."""

    statuses: tuple[int, ...]
    meaning: str

    def __new__(cls, value: str, statuses: tuple[int, ...], meaning: str) -> Self:
        code = str.__new__(cls, value)
        code._value_ = value
        code.statuses, code.meaning = statuses, meaning
        return code

    # Faults of fields and query parameters. Most of these names are REST framework's.
    REQUIRED = "required", (400,), "A required field is missing."
    NULL = "null", (400,), "`null` is not allowed here."
    BLANK = "blank", (400,), "An empty string is not allowed here."
    INVALID = "invalid", (400,), "The type, the format or the value is wrong."
    INVALID_CHOICE = "invalid_choice", (400,), "The value is none of the listed ones."
    MAX_LENGTH = "max_length", (400,), "The value has too many characters, bytes or entries."
    MIN_LENGTH = "min_length", (400,), "The value has too few characters or entries."
    NOT_A_LIST = "not_a_list", (400,), "A list is required."
    DUPLICATE = "duplicate", (400,), "A key, a query parameter or an entry is given more than once."
    UNKNOWN_FIELD = "unknown_field", (400,), "There is no field with this name."
    READ_ONLY = "read_only", (400,), "The field is only in responses."
    IMMUTABLE = "immutable", (400,), "The field can only be set when the resource is created."
    DOES_NOT_EXIST = "does_not_exist", (400,), "The resource that the field refers to does not exist."
    NOT_ALLOWED = (
        "not_allowed",
        (400,),
        "The policies, the network, the signer or the state of the relayer do not allow this value.",
    )
    NOT_SUPPORTED = "not_supported", (400,), "The operation is never possible; the message names the alternative."
    # Faults of whole requests.
    BAD_REQUEST = "bad_request", (400,), "The request is malformed, such as its Host header or a cookie."
    HTTPS_REQUIRED = "https_required", (400,), "The service accepts HTTPS only."
    INVALID_HEADER = "invalid_header", (400,), "The value of a header is not ASCII."
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", (400,), "The content type is not that of the operation."
    EMPTY_BODY = "empty_body", (400,), "The operation requires a body."
    UNEXPECTED_BODY = "unexpected_body", (400,), "The operation accepts no body."
    INCOMPLETE_BODY = "incomplete_body", (400,), "The body is shorter than its declared length, or arrived too slowly."
    BODY_TOO_LARGE = "body_too_large", (400,), "The body has too many bytes, values or levels."
    PARSE_ERROR = "parse_error", (400,), "The body is not valid JSON in UTF-8."
    # Credentials and rights.
    NOT_AUTHENTICATED = "not_authenticated", (401,), "The request has no bearer token."
    AUTHENTICATION_FAILED = "authentication_failed", (401,), "The token is not valid, or not from this address."
    PERMISSION_DENIED = "permission_denied", (403,), "The token does not allow this, such as for this relayer."
    INSUFFICIENT_SCOPE = "insufficient_scope", (403,), "The token lacks the scope that `WWW-Authenticate` names."
    TOKEN_LIMITED = "token_limited", (403,), "The token's `allowed_relayers` or spending rules forbid this change."
    RELAYER_PAUSED = "relayer_paused", (403,), "The relayer is paused."
    RELAYER_DISABLED = (
        "relayer_disabled",
        (403,),
        "The health check has disabled the relayer: it signs nothing for callers, but still accepts transactions.",
    )
    SIGNING_NOT_ALLOWED = "signing_not_allowed", (403,), "The relayer's `allow_signing` lacks what is to be signed."
    SPENDING_REFUSED = "spending_refused", (403,), "A spending rule of the relayer or of the token refuses this."
    NOT_REQUESTER = "not_requester", (403,), "Another token requested the transaction, and this one lacks `manage`."
    # Paths and states.
    NOT_FOUND = "not_found", (404,), "There is no resource with this ID or nonce."
    UNKNOWN_PATH = "unknown_path", (404,), "There is no operation at this path."
    METHOD_NOT_ALLOWED = "method_not_allowed", (405,), "The path has other methods, which `Allow` lists."
    CONFLICT = "conflict", (409,), "The state of the resource does not allow this; the message has the reason."
    ID_TAKEN = "id_taken", (409,), "Another resource has this ID."
    IN_USE = "in_use", (409,), "Other resources or open transactions refer to the resource."
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused", (409,), "The key was sent before with a different body."
    ACCOUNT_UNKNOWN = "account_unknown", (409, 503), "The address or the chain ID of the relayer is not known yet."
    ACCOUNT_TAKEN = "account_taken", (409,), "Another relayer sends with this account on this chain."
    NOT_CHANGEABLE = "not_changeable", (409,), "The transaction is mined, final or held."
    # Load and failures: the same request may succeed later. `Retry-After` says when.
    THROTTLED = "throttled", (429,), "The rate limit of the token is reached."
    QUEUE_FULL = "queue_full", (429,), "The relayer has too many transactions that wait."
    STORAGE_LIMIT = "storage_limit", (429,), "The token has stored as much as it can per day."
    BUSY = "busy", (429, 503), "All threads for calls to nodes and signers are in use."
    INTERNAL_ERROR = "internal_error", (500,), "The service failed; its log has the cause under the request ID."
    UNAVAILABLE = "unavailable", (503,), "A part of the service is unavailable."
    DATABASE_UNAVAILABLE = "database_unavailable", (503,), "The database is away, locked or full, or was lost midway."
    NODES_UNAVAILABLE = "nodes_unavailable", (503,), "No node returned what is needed; the message has the causes."
    SIGNER_UNAVAILABLE = "signer_unavailable", (503,), "The signer did not sign; its page in the admin has the cause."


BY_VALUE = {code.value: code for code in ErrorCode}
# Of responses without a more specific one.
BY_STATUS: dict[int, ErrorCode] = {
    HTTPStatus.UNAUTHORIZED: ErrorCode.AUTHENTICATION_FAILED,
    HTTPStatus.FORBIDDEN: ErrorCode.PERMISSION_DENIED,
    HTTPStatus.NOT_FOUND: ErrorCode.UNKNOWN_PATH,
    HTTPStatus.METHOD_NOT_ALLOWED: ErrorCode.METHOD_NOT_ALLOWED,
    HTTPStatus.CONFLICT: ErrorCode.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS: ErrorCode.THROTTLED,
    HTTPStatus.SERVICE_UNAVAILABLE: ErrorCode.UNAVAILABLE,
}


def code_of_status(status: int) -> ErrorCode:
    is_failure = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return BY_STATUS.get(status, ErrorCode.INTERNAL_ERROR if is_failure else ErrorCode.BAD_REQUEST)


def listed(code: str | None, otherwise: ErrorCode) -> ErrorCode:
    """Return a code of REST framework or Django, or another one if it is not in the table."""
    return BY_VALUE.get(code or "", otherwise)
