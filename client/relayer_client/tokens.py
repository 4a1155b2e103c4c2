"""The token of a client: a string, or a function that returns it whenever a call begins."""

from collections.abc import Awaitable, Callable

from relayer_client.checks import check_token
from relayer_client.errors import ConnectionFailed

FAILED = "The function that returns the token failed, or returned something else: see the cause of this error."

Token = str | Callable[[], str]
AsyncToken = str | Callable[[], str | Awaitable[str]]


class TokenSource:
    """The token that a client and its copies share."""

    def __init__(self, source: AsyncToken) -> None:
        self._source: AsyncToken = source if callable(source) else check_token(source)

    def replace(self, token: str) -> None:
        """Use another token from now on, unless a function returns it."""
        if not callable(self._source):
            self._source = token

    def read(self, key: str | None) -> str:
        """Return the token of a call with an idempotency key; raise `ConnectionFailed` if its function fails."""
        if not callable(self._source):
            return self._source
        try:
            return check_token(self._source())
        except Exception as error:
            raise ConnectionFailed(FAILED, key) from error

    async def async_read(self, key: str | None) -> str:
        if not callable(self._source):
            return self._source
        try:
            token = self._source()
            return check_token(token if isinstance(token, str) else await token)
        except Exception as error:
            raise ConnectionFailed(FAILED, key) from error
