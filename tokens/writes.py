"""The single write path of access tokens: issuing, replacing and changing them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from django.db import transaction
from django.utils import timezone

from relayer_service.writes import Values
from spending.writes import HolderWrite
from tokens import credentials
from tokens.models import AccessToken

# The fields that a replacement copies. With the spending policy, it has the rules and what was spent of their limits.
KEPT = ("name", "user", "allowed_networks", "scopes", "allowed_relayers", "spending")


class AccessTokenWrite(HolderWrite[AccessToken]):
    """A token to issue or to change."""

    model = AccessToken
    # The text of a new token, which is not stored.
    text = ""

    def set(self, values: Values) -> None:
        for name, value in values.items():
            if name == "spending_rules":
                self.set_rules(value)
                self.note(name)
            else:
                setattr(self.row, name, value)
                self.note(name, name)

    def check(self) -> None:
        self.row.full_clean(exclude=["key", "digest", "pepper_id"] if self.is_new else None)

    @classmethod
    def save_rows(cls, writes: Sequence[Self]) -> None:
        for write in writes:
            if write.is_new:
                credential = credentials.generate()
                write.row.set_credential(credential)
                write.text = credential.reveal()
        super().save_rows(writes)


def issue(**values: Any) -> tuple[AccessToken, str]:
    """Return a new token and its text; raise `ValidationError` where a value is invalid."""
    write = AccessTokenWrite(AccessToken())
    write.change(values)
    with transaction.atomic():
        return write.save(), write.text


def replace(token: AccessToken, accepted_until: datetime) -> tuple[AccessToken, str]:
    """Issue a token with the same rights and lifetime; the old one expires at the given time, or earlier.

    Webhooks are not notified that the old one expires.
    """
    now = timezone.now()
    expires_at = now + (token.expires_at - token.created_at) if token.expires_at else None
    with transaction.atomic():
        issued, text = issue(expires_at=expires_at, **{name: getattr(token, name) for name in KEPT})
        write = AccessTokenWrite(token)
        expiry = min(accepted_until, token.expires_at or accepted_until)
        write.set({"expires_at": expiry, "expiry_announced_at": now, "replaced_at": now})
        write.save(f"Replaced by {issued}.")
    return issued, text
