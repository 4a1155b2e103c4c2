"""The single write path of access tokens: issuing, rotating and changing them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self

from django.db import transaction
from django.utils import timezone

from relayer_service.audit.recording import changed, record, snapshot
from relayer_service.writes import Values
from spending.writes import HolderWrite
from tokens import credentials
from tokens.models import WITH_PREDECESSOR, AccessToken, lock_family

# The fields that a replacement copies. With the spending policy, it has the rules and what was spent of their limits.
KEPT = ("name", "user", "allowed_networks", "scopes", "allowed_relayers", "spending", "issued_after")
# A family is locked and revoked in one statement, which has a maximum of parameters.
MAX_FAMILY = 10_000
# How long the old token is accepted after a rotation.
DEFAULT_OVERLAP = timedelta(days=1)
MAX_OVERLAP = timedelta(days=7)
# What disabling a token with its successors or without them means, for staff.
WITH_ALL = "in doubt, as whoever has a leaked token may have rotated it"
ONLY_THIS = "programs that use a successor go on"


class AccessTokenWrite(HolderWrite[AccessToken]):
    """A token to issue or to change."""

    model = AccessToken
    # The text of a new token, which is not stored.
    text = ""
    # Whether its successors are disabled when it is.
    with_successors = True

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
        families = [(write.row, write.lock_family()) for write in writes if write.changes_rules and not write.is_new]
        super().save_rows(writes)
        for row, family in families:
            share_policy(row, family)
        ending = [each for each in writes if each.with_successors and "enabled" in each.columns]
        if disabled := [write.row.pk for write in ending if not write.row.enabled]:
            AccessToken.objects.filter(pk__in=disabled).successors().disable(WITH_PREDECESSOR)

    def lock_family(self) -> list[AccessToken]:
        """Lock the tokens that share its rules. Its first rules replace the rules of a policy that another one has."""
        family, policy = lock_family(self.row.pk), self.row.spending
        assert policy is not None
        policy.pk = policy.pk or next((each.spending_id for each in family if each.spending_id), None)
        return family


def share_policy(row: AccessToken, family: Sequence[AccessToken]) -> None:
    """Have a locked family use the policy of one of its tokens: otherwise the others could send without the rules."""
    for token in family:
        if token.pk != row.pk and token.spending_id != row.spending_id:
            before = snapshot(token)
            token.spending = row.spending
            token.save(update_fields=["spending"])
            record([changed(token, before, reason=f"Shares the rules of {row}.")])


def issue(**values: Any) -> tuple[AccessToken, str]:
    """Return a new token and its text; raise `ValidationError` where a value is invalid."""
    write = AccessTokenWrite(AccessToken())
    write.change(values)
    with transaction.atomic():
        return write.save(), write.text


class NotRotatable(Exception):
    """A token cannot be rotated; the message is the reason."""


class AlreadyRotated(NotRotatable):
    """A token has a successor."""


class Rotation(NamedTuple):
    """A replaced token, its successor, and the text of that, which is not stored."""

    old: AccessToken
    new: AccessToken
    text: str


def rotate(token_id: int, overlap: timedelta = DEFAULT_OVERLAP, lifetime: timedelta | None = None) -> Rotation:
    """Issue the successor of a token, with the same rights and expiry; the old token expires after the overlap.

    It expires earlier if it was to, and webhooks are not notified. With a lifetime, the successor has that instead of
    the expiry of the old token.
    """
    with transaction.atomic():
        rows = AccessToken.objects.select_related("user").select_for_update(of=("self",))
        token: AccessToken | None = rows.filter(pk=token_id).first()
        if token is None or token.state != "active":
            raise NotRotatable(f"the token is {token.state if token else 'deleted'}: issue a new one")
        if token.replaced_at:
            raise AlreadyRotated("the token was already replaced: rotate its replacement")
        if AccessToken.objects.filter(family=token.family_key)[:MAX_FAMILY].count() == MAX_FAMILY:
            raise NotRotatable(f"the token was rotated {MAX_FAMILY:,} times: issue a new one")
        now = timezone.now()
        expires_at = min(now + overlap, token.expires_at or now + overlap)
        changes = {"expires_at": expires_at, "replaced_at": now}
        return _replace(token, now + lifetime if lifetime else token.expires_at, changes)


def reissue(token_id: int) -> Rotation:
    """Issue the successor of a revoked token, which expires when the newest of its successors would."""
    with transaction.atomic():
        family = [each for each in lock_family(token_id) if each.pk >= token_id]
        if not family:
            raise NotRotatable("the token is deleted: issue a new one")
        if active := next((each for each in family if each.state == "active"), None):
            raise NotRotatable(f"{active} is active: revoke it, or rotate it")
        if family[-1].has_expired or len(family) >= MAX_FAMILY:
            raise NotRotatable("it expired, or was rotated too often: issue a new one")
        newest, changes = family[-1], {"replaced_at": timezone.now()}
        return _replace(family[0], newest.expires_at, changes, issued_after=newest.pk)


def _replace(token: AccessToken, expires_at: datetime | None, changes: Values, **values: Any) -> Rotation:
    """Issue the successor of a locked token, with these values in place of its own, and change the token itself."""
    write = AccessTokenWrite(token)
    kept = {name: getattr(token, name) for name in KEPT} | values
    issued, text = issue(expires_at=expires_at, family=token.family_key, **kept)
    write.set({**changes, "family": token.family_key})
    write.save(f"Replaced by {issued}.")
    return Rotation(token, issued, text)
