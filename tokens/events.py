"""Events of access tokens."""

from typing import TypedDict

from notifications.events import Event, Timestamp


class TokenExpiringData(TypedDict):
    name: str
    # The public part.
    token: str
    expires_at: Timestamp


TOKEN_EXPIRING = Event(
    "token.expiring", TokenExpiringData, "An access token expires soon. Sent 14 and 3 days before expiry."
)
