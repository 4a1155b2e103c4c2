from __future__ import annotations

import json
import time
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.utils import timezone

from relayer_service.audit.recording import acted, record
from relayer_service.database.clock import DatabaseNow
from relayer_service.sign_in import codes
from relayer_service.storage.encryption import EncryptedJSONField, seal, sealed

ADDRESSES_KEPT = timedelta(days=30)


class SecondFactor(models.Model):
    """The authenticator app of a user, with recovery codes. A new one has another identifier, which ends sessions."""

    identifier = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="second_factor", editable=False)
    key = EncryptedJSONField(editable=False)
    recovery_codes = EncryptedJSONField(editable=False, help_text="The SHA-256 digests of the unused codes.")
    last_step = models.BigIntegerField(editable=False, help_text="The time step of the last accepted code.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        # Users manage their own; superusers reset other users'.
        default_permissions = ()

    def __str__(self) -> str:
        return f"second factor {self.identifier}"

    def verify(self, text: str) -> str:
        """Return which kind of code a text is, and accept it only this once; empty if it is wrong."""
        step = codes.matching_step(self.key, text, self.last_step, time.time())
        if step is not None:
            newer = type(self).objects.filter(pk=self.pk, last_step__lt=step)
            return "code" if newer.update(last_step=step) else ""
        left = [each for each in self.recovery_codes if each != codes.digest(text)]
        if len(left) == len(self.recovery_codes):
            return ""
        return "recovery code" if self._replace_recovery_codes(left) else ""

    def renew_recovery_codes(self) -> list[str]:
        new = codes.new_recovery_codes()
        self._replace_recovery_codes([codes.digest(each) for each in new])
        return new

    def _replace_recovery_codes(self, digests: list[str]) -> bool:
        """Store other codes, unless they were changed concurrently; return whether they were stored."""
        field: Any = self._meta.get_field("recovery_codes")
        unchanged = type(self).objects.filter(pk=self.pk, recovery_codes=sealed(self, field))
        self.recovery_codes = seal(json.dumps(digests).encode(), field.context(self))
        return bool(unchanged.update(recovery_codes=sealed(self, field)))


def enable(user: User, key: str, step: int) -> tuple[SecondFactor, list[str]]:
    """Create a user's second factor in place of any other; return it with its recovery codes."""
    recovery_codes = codes.new_recovery_codes()
    digests = [codes.digest(each) for each in recovery_codes]
    with transaction.atomic():
        # Locked, so that of two at a time the later replaces the earlier.
        User.objects.select_for_update().get(pk=user.pk)
        SecondFactor.objects.filter(user=user).delete()
        factor = SecondFactor.objects.create(user=user, key=key, recovery_codes=digests, last_step=step)
        record([acted(user, "Enabled the second factor")])
    return factor, recovery_codes


def disable(user: User, reason: str) -> bool:
    """Delete the second factor of a user, with an audit entry; return whether there was one."""
    with transaction.atomic():
        deleted, _ = SecondFactor.objects.filter(user=user).delete()
        record([acted(user, reason)] if deleted else [])
    return bool(deleted)


class UserPreference(models.Model):
    """What a user has chosen for all pages of the admin."""

    # Without a constraint, as releases before 0.1.0 deleted users but not these rows.
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="preference", db_constraint=False
    )
    time_zone = models.CharField(max_length=64, help_text="The name of the time zone that times are shown in.")

    class Meta:
        # Users manage their own.
        default_permissions = ()

    def __str__(self) -> str:
        return self.time_zone


class SignInAddressManager(models.Manager["SignInAddress"]):
    def remember(self, user: User, address: str) -> None:
        self.update_or_create(user=user, address=address, defaults={"last_at": DatabaseNow()})

    def is_known(self, username: str, address: str) -> bool:
        """Return whether a user has signed in from an address recently."""
        recent = DatabaseNow() - ADDRESSES_KEPT
        return self.filter(user__username=username, address=address, last_at__gt=recent).exists()

    def prune(self) -> None:
        self.filter(last_at__lte=DatabaseNow() - ADDRESSES_KEPT).delete()


class SignInAddress(models.Model):
    """An address from which a user has signed in, where the failures of others do not lock the user out."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", editable=False, db_constraint=False
    )
    address = models.CharField(max_length=64, editable=False, help_text="An IPv4 address, or a /64 network of IPv6.")
    last_at = models.DateTimeField(editable=False)

    objects = SignInAddressManager()

    class Meta:
        verbose_name = "sign-in address"
        verbose_name_plural = "sign-in addresses"
        default_permissions = ()
        constraints = [models.UniqueConstraint("user", "address", name="sign_in_address_once")]
        indexes = [models.Index("last_at", name="sign_in_address_by_age")]

    def __str__(self) -> str:
        return self.address
