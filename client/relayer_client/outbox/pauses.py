"""How long a row waits for its next attempt."""

from datetime import timedelta

from relayer_client.errors import ApiError, RelayerClientError

MAX_RETRY_SECONDS = 300.0
MAX_POLL_SECONDS = 30.0
# From here on, pauses are the maximum, and powers would grow without end.
MAX_GROWTH = 16


def retry_pause(attempts: int, error: RelayerClientError | None = None) -> timedelta:
    """Return the pause after a failure: 1, 2, 4 seconds and so on, and at least what the service asks for."""
    minimum = (error.retry_after if isinstance(error, ApiError) else None) or 0.0
    return timedelta(seconds=max(minimum, min(2.0 ** min(attempts, MAX_GROWTH), MAX_RETRY_SECONDS)))


def poll_pause(attempts: int) -> timedelta:
    """Return the pause between two readings of a transaction."""
    return timedelta(seconds=min(1.5 ** min(attempts, MAX_GROWTH), MAX_POLL_SECONDS))
