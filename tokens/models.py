from __future__ import annotations

import hmac
import ipaddress
import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models, transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from relayer_service.audit.recording import changed, record
from relayer_service.database.prefixes import prefix_index
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.net import incoming
from spending.models import SpendingPolicy
from spending.writes import audited_rules
from tokens import credentials, peppers, scopes
from tokens.peppers import digest
from tokens.scopes import validate_relayer_ids, validate_scopes

logger = logging.getLogger(__name__)

SOON = timedelta(days=14)
EXPIRES_SOON = "expires soon"
WITH_PREDECESSOR = "Disabled with the token that it succeeds."


def validate_networks(networks: Any) -> None:
    if not isinstance(networks, list) or not all(isinstance(item, str) for item in networks):
        raise ValidationError("Must be a list of addresses or CIDR networks.")
    for item in networks:
        try:
            ipaddress.ip_network(item)
        except ValueError:
            raise ValidationError(f"{item!r} is not an address or a CIDR network.") from None


def forget(keys: set[str]) -> None:
    """Remove tokens from the cache of this process, now and after the commit."""

    def remove() -> None:
        verified_tokens.remove_where(lambda token: token.key in keys)

    remove()
    transaction.on_commit(remove)


def states() -> dict[str, models.Q]:
    """Return the condition of each state, at present."""
    now = timezone.now()
    return {
        "active": models.Q(enabled=True) & (models.Q(expires_at=None) | models.Q(expires_at__gt=now)),
        # A replaced token is meant to expire.
        EXPIRES_SOON: models.Q(enabled=True, expires_at__gt=now, expires_at__lte=now + SOON, replaced_at=None),
        "expired": models.Q(enabled=True, expires_at__lte=now),
        "disabled": models.Q(enabled=False),
    }


def lock(chosen: set[int]) -> list[AccessToken]:
    return list(AccessToken.objects.select_for_update(of=("self",)).filter(pk__in=chosen).order_by("pk"))


def lock_with_successors(chosen: set[int]) -> list[AccessToken]:
    """Lock tokens and all their successors, even those of a rotation that is in progress."""
    locked: list[AccessToken] = []
    asked, found = set[int](), chosen
    while found:
        asked |= found
        # Waits for a rotation, which has locked the last of these; its new token is found next.
        locked += lock(found)
        successors = AccessToken.objects.filter(pk__in=asked).successors()
        found = set(successors.values_list("pk", flat=True)) - asked
    return locked


def lock_family(token_id: int) -> list[AccessToken]:
    """Lock a token and all that were rotated to it or from it, the oldest first, even while one is being rotated."""
    locked: list[AccessToken] = []
    while True:
        own = models.Q(family__in=AccessToken.objects.exclude(family="").filter(pk=token_id).values("family"))
        rows = AccessToken.objects.filter(models.Q(pk=token_id) | own).exclude(pk__in=[each.pk for each in locked])
        # Waits for a rotation, whose new token is found next.
        if not (found := list(rows.select_for_update(of=("self",)).order_by("pk"))):
            return locked
        locked += found


class AccessTokenQuerySet(models.QuerySet["AccessToken"]):
    """Bulk changes remove the tokens from the cache, so that this process rejects them immediately."""

    def unverifiable(self) -> AccessTokenQuerySet:
        """Return the active tokens whose fingerprints match no configured pepper."""
        verifiable = models.Q()
        for identifier, fingerprint in peppers.fingerprints().items():
            verifiable |= models.Q(pepper_id=identifier, pepper_fingerprint__in=["", fingerprint])
        return self.filter(states()["active"]).exclude(verifiable).order_by("created_at", "id")

    def successors(self) -> AccessTokenQuerySet:
        """Return the tokens that these were rotated to, directly or through others."""
        return self._later(issued_after=models.OuterRef("issued_after"))

    def reissued(self) -> AccessTokenQuerySet:
        """Return the tokens that staff issued in place of these, once revoked, and those that they were rotated to."""
        return self._later(issued_after__lt=models.OuterRef("issued_after"))

    def _later(self, **conditions: models.OuterRef) -> AccessTokenQuerySet:
        of_family = self.exclude(family="").filter(family=models.OuterRef("family"), pk__lt=models.OuterRef("pk"))
        return AccessTokenQuerySet(AccessToken).filter(models.Exists(of_family.filter(**conditions)))

    def verify(self, credential: credentials.Credential) -> AccessToken | None:
        """Return the token if the credential is genuine and the user active.

        An unknown key and a wrong secret take the same time: one query and one digest.
        """
        token = self.select_related("user").filter(key=credential.key).first()
        pepper = settings.TOKEN_PEPPERS.get(token.pepper_id) if token else None
        expected = digest(credential.secret, pepper or b"no such pepper")
        genuine = hmac.compare_digest(expected, token.digest if token else "-" * len(expected))
        if not (token and pepper and genuine and token.user.is_active):
            return None
        token.rehash(credential)
        return token

    def disable(self, reason: str = "", *, with_successors: bool = True) -> int:
        """Disable tokens, and their successors unless these are to stay; return how many were enabled."""
        with transaction.atomic():
            chosen = set(self.values_list("pk", flat=True))
            tokens = lock_with_successors(chosen) if with_successors else lock(chosen)
            reasons = {token.pk: reason if token.pk in chosen else WITH_PREDECESSOR for token in tokens}
            count: int = AccessToken.objects.filter(pk__in=[*reasons], enabled=True).update(enabled=False)
            before, after = {token.pk: {"enabled": token.enabled} for token in tokens}, {"enabled": False}
            record(changed(token, before[token.pk], after, reasons[token.pk]) for token in tokens)
        forget({token.key for token in tokens})
        return count

    def delete(self) -> tuple[int, dict[str, int]]:
        keys = set(self.values_list("key", flat=True))
        deleted = super().delete()
        forget(keys)
        return deleted

    # As Django's own: not on the manager, where it would delete all tokens.
    delete.queryset_only = True  # type: ignore[attr-defined]


def is_revoked(key: str) -> bool:
    """Return whether a token or its user is no longer active, unless it was rotated, or it lost the scope `manage`."""
    active = states()["active"] | models.Q(enabled=True, replaced_at__isnull=False)
    token = AccessToken.objects.filter(active, key=key, user__is_active=True).first()
    return token is None or not token.has_scope(scopes.Scope.MANAGE)


class AccessToken(models.Model):
    """A program's key to the API; only an HMAC of its secret is stored."""

    name = models.CharField(max_length=100, help_text="A name for the token, such as the application that uses it.")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="access_tokens",
        help_text="The user it acts for. It is rejected while this user is inactive.",
    )
    key = models.CharField(max_length=credentials.KEY_LENGTH, unique=True, editable=False)
    digest = models.CharField(max_length=64, editable=False)
    pepper_id = models.CharField(max_length=16, editable=False)
    # With a database default, as processes of the previous release do not set this column.
    pepper_fingerprint = models.CharField(
        max_length=peppers.FINGERPRINT_LENGTH,
        default="",
        db_default="",
        editable=False,
        help_text="Identifies the pepper of its digest. Empty for a token of an earlier release until it is used.",
    )
    enabled = models.BooleanField(default=True, help_text="A disabled token is rejected.")
    expires_at = models.DateTimeField(null=True, blank=True, help_text="In UTC. If empty, it does not expire.")
    allowed_networks = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_networks],
        help_text="Addresses or CIDR networks it is accepted from. If empty, it is accepted from any address.",
    )
    scopes = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        validators=[validate_scopes],
        help_text="What it is allowed to do. If empty, it can use the operations of the interface document.",
    )
    allowed_relayers = models.JSONField(
        default=list,
        db_default=[],
        blank=True,
        validators=[validate_relayer_ids],
        help_text="IDs of relayers, or tag:NAME for those with a tag, that it can send and sign with, and change. "
        "If empty, all relayers.",
    )
    spending = models.ForeignKey(
        SpendingPolicy,
        on_delete=models.PROTECT,
        null=True,
        editable=False,
        db_index=False,
        related_name="+",
        help_text="A token that succeeds another one has the same, with what was spent.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    first_used_at = models.DateTimeField(null=True, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False, help_text="Updated at most once a minute.")
    expiry_announced_at = models.DateTimeField(null=True, editable=False)
    replaced_at = models.DateTimeField(
        null=True, editable=False, help_text="When it was replaced by a new token. A token can be replaced only once."
    )
    # With a database default, as processes of the previous release do not set this column.
    family = models.CharField(
        max_length=credentials.KEY_LENGTH,
        default="",
        db_default="",
        editable=False,
        help_text="The key of the first of the tokens that replaced each other; empty if it was never replaced.",
    )
    # Whoever has a revoked token has not this one, so it is none of its successors.
    issued_after = models.PositiveBigIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="The newest of its family when staff issued it, or the one that it was rotated from, in place of a "
        "revoked one; 0 if none was revoked.",
    )

    objects = AccessTokenQuerySet.as_manager()
    # Since when the page of a leaked token shows what was done with it.
    since: datetime | None = None

    class Meta:
        ordering = ["-created_at", "-id"]
        permissions = [("revoke_accesstoken", "Can disable access tokens")]
        indexes = [
            models.Index("expires_at", name="token_expiry", condition=models.Q(expires_at__isnull=False)),
            models.Index("family", "id", name="token_family", condition=~models.Q(family="")),
            prefix_index("name", name="token_name_prefix", key="id"),
            prefix_index("key", name="token_key_prefix", key="id"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.shown_key})"

    def save(self, *args: Any, **kwargs: Any) -> None:
        super().save(*args, **kwargs)
        forget({self.key})

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        deleted = super().delete(*args, **kwargs)
        forget({self.key})
        return deleted

    def audited(self) -> dict[str, Any]:
        names = ("name", "user", "enabled", "expires_at", "allowed_networks", "scopes", "allowed_relayers")
        values = {name: getattr(self, name) for name in names}
        return {**values, "user": self.user.get_username(), **audited_rules(self)}

    def set_credential(self, credential: credentials.Credential) -> None:
        self.key = credential.key
        self._hash(credential)

    def _hash(self, credential: credentials.Credential) -> None:
        self.pepper_id, pepper = next(iter(settings.TOKEN_PEPPERS.items()))
        self.pepper_fingerprint = peppers.fingerprint(pepper)
        self.digest = digest(credential.secret, pepper)

    def rehash(self, credential: credentials.Credential) -> None:
        """Hash a genuine token with the first pepper if necessary, as Django does with passwords."""
        first = next(iter(peppers.fingerprints().items()))
        if (self.pepper_id, self.pepper_fingerprint) == first:
            return
        stored = AccessToken.objects.filter(pk=self.pk, digest=self.digest)
        self._hash(credential)
        try:
            stored.update(pepper_id=self.pepper_id, pepper_fingerprint=self.pepper_fingerprint, digest=self.digest)
        except DatabaseError:
            # The token is still genuine.
            logger.exception("The token %s could not be rehashed with the first pepper", self)

    @property
    def public_part(self) -> str:
        return f"rms_{self.key}"

    @property
    def shown_key(self) -> str:
        return f"{self.public_part}_…"

    @property
    def family_key(self) -> str:
        """The key of the first of the tokens that replaced each other: they share limits and transactions."""
        return self.family or self.key

    @property
    def state(self) -> str:
        if not self.enabled:
            return "disabled"
        return "expired" if self.has_expired else "active"

    @property
    def has_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= timezone.now()

    def has_scope(self, scope: str) -> bool:
        return scopes.grants(self.scopes, scope)

    @property
    def only_relayers(self) -> list[str]:
        """The relayers that it can read, as in `allowed_relayers`; empty: all."""
        reads_all = not self.scopes or self.has_scope(scopes.Scope.READ)
        return [] if reads_all else list(self.allowed_relayers)

    def reaches(self, relayer_id: str) -> bool:
        """Return whether it can send and sign with a relayer, and change it, as its tags are now."""
        return bool(import_string("relayers.reach.reaches")(self.allowed_relayers, relayer_id))

    @property
    def permissions(self) -> str:
        return scopes.describe(self.scopes, self.allowed_relayers)

    def read_spending_id(self) -> int | None:
        """Return its spending policy in the database; a deleted token keeps the one it had."""
        policy: int | None = AccessToken.objects.filter(pk=self.pk).values_list("spending_id", flat=True).first()
        return policy or self.spending_id

    def has_spending_rules(self) -> bool:
        """Return whether it has rules; a deleted policy counts as having some."""
        policy = self.read_spending_id()
        return policy is not None and not SpendingPolicy.objects.filter(pk=policy, rules={}).exists()

    def family_keys(self) -> Any:
        """Return the keys of the tokens that replaced each other, with its own, for a subquery."""
        return AccessToken.objects.filter(models.Q(key=self.key) | models.Q(family=self.family_key)).values("key")

    def is_usable(self, address: str) -> bool:
        """Return whether a verified token is accepted from this address now."""
        if not self.enabled or self.has_expired:
            return False
        networks = [ipaddress.ip_network(item) for item in self.allowed_networks]
        return not networks or incoming.is_within(address, networks)


class TokenUse(models.Model):
    """The requests with a token from one address, or from all others once it was used from many."""

    # Without a constraint: the uses of a deleted token are pruned.
    token = models.ForeignKey(
        AccessToken, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    address = models.CharField(
        max_length=64, help_text="An IPv4 address or a /64 network of IPv6; empty: all others, or unknown."
    )
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    requests = models.PositiveBigIntegerField()
    forbidden = models.PositiveBigIntegerField(help_text="Answered with 403, except by spending rules.")
    refused = models.PositiveBigIntegerField(help_text="Refused by spending rules.")
    rejected = models.PositiveBigIntegerField(
        help_text="Answered with 401, as it was disabled, expired or from another network."
    )

    class Meta:
        # Shown only on the pages of tokens.
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["token", "address"], name="token_use_once")]
        indexes = [models.Index("last_at", name="token_use_by_age")]

    def __str__(self) -> str:
        return f"{self.requests} requests from {self.address}"


# Recently verified tokens by a hash of their text. Threads share the rows and only read them.
verified_tokens: TTLCache[bytes, AccessToken] = TTLCache()
