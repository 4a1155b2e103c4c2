"""What a token stores per day with its requests: also what it cancels, replaces or repeats counts."""

from django.conf import settings

from relayer_service.api import allowances
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import TooManyRequests

USED = "The token has stored as much as it can per day"
# Besides the data: the rows of a request, its timeline and the audit log.
ROW_BYTES = 1024
DAY_SECONDS = 86_400


def use(requester: str, size: int = 0) -> None:
    """Count a request with data of this size; raise `TooManyRequests` if it is too much. Staff are not limited."""
    limit: int = settings.TRANSACTION_BYTES_PER_DAY
    size += ROW_BYTES
    if requester and limit and (wait := allowances.take(requester, size, limit, DAY_SECONDS, 64 * ROW_BYTES)):
        raise TooManyRequests(USED, wait, ErrorCode.STORAGE_LIMIT)
