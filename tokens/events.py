"""The events about access tokens."""

from typing import TypedDict

from notifications.events import Event


class TokenExpiringData(TypedDict):
    name: str
    # The public part.
    token: str
    expires_at: str


TOKEN_EXPIRING = Event(
    "token.expiring", TokenExpiringData, "An access token expires soon: told 14 days before, and 3 days before."
)
