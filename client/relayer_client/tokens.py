"""The token of a client: a string, or a function that returns it whenever a call begins."""

from collections.abc import Awaitable, Callable

from relayer_client.checks import check_token

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

    def read(self) -> str:
        return check_token(self._source() if callable(self._source) else self._source)

    async def async_read(self) -> str:
        token = self._source() if callable(self._source) else self._source
        return check_token(token if isinstance(token, str) else await token)
