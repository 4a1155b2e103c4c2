"""Limits on failed sign-ins, counted by django-ratelimit in the shared cache.

Failures count per account and address, per account over all addresses, and per address over all accounts. The last two
do not apply at an address from which the account has signed in before: others cannot lock its user out there.
"""

import ipaddress
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from relayer_service.net.incoming import parse_address
from relayer_service.sign_in.models import SignInAddress

# IPv6 networks are assigned in this size: a client has all addresses in it.
IPV6_PREFIX = 64
MAX_USERNAME_LENGTH = User._meta.get_field("username").max_length or 0


@dataclass(frozen=True)
class Rates:
    """How many failures of one kind are allowed, in django-ratelimit's notation."""

    kind: str
    pair: str
    account: str
    address: str


PASSWORDS = Rates("password", pair="10/15m", account="50/h", address="50/15m")
# A guess at a code is right in 3 of 1,000,000 cases, so that few per day are allowed.
CODES = Rates("code", pair="5/15m", account="20/d", address="50/15m")


@dataclass(frozen=True)
class Lock:
    """A limit that a failure has just reached."""

    name: str
    failures: int
    seconds: int


def address_of(request: HttpRequest) -> str:
    """Return the client's IPv4 address or /64 network; empty if it is unknown."""
    address = parse_address(request.META.get("REMOTE_ADDR", ""))
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address or "")


class Attempt:
    """An attempt to sign in as an account, by its name as it was typed."""

    def __init__(self, rates: Rates, request: HttpRequest, username: str) -> None:
        self.rates = rates
        self.request = request
        # As Django's form reads it.
        self.username = unicodedata.normalize("NFKC", username.strip()[:MAX_USERNAME_LENGTH])
        self.address = address_of(request)

    @cached_property
    def keys(self) -> dict[str, str]:
        account = self.username.casefold()
        return {"address": self.address, "account": account, "pair": f"{self.address} {account}"}

    def seconds_locked(self) -> int:
        """Return for how long the attempt is refused; 0 if it is not."""
        # The address first, so that one which is locked adds nothing to the cache, whatever names it tries.
        for name in ("address", "account"):
            seconds = self._seconds_left(name)
            if seconds and not self._is_known:
                return seconds
        return self._seconds_left("pair")

    @cached_property
    def _is_known(self) -> bool:
        return SignInAddress.objects.is_known(self.username, self.address)

    def count_failure(self) -> tuple[bool, list[Lock]]:
        """Count a failure; return whether it is the first of the account and address, and the limits it reaches."""
        usages = {name: self._usage(name, increment=True) for name in self.keys}
        locks = [
            Lock(name, usage["limit"], usage["time_left"])
            for name, usage in usages.items()
            if usage and usage["count"] == usage["limit"]
        ]
        pair = usages["pair"]
        return pair is None or pair["count"] == 1, locks

    def _seconds_left(self, name: str) -> int:
        usage = self._usage(name, increment=False)
        return max(1, usage["time_left"]) if usage and usage["count"] >= usage["limit"] else 0

    def _usage(self, name: str, increment: bool) -> dict[str, Any] | None:
        """Return the failures so far; None while the cache is unavailable."""
        group = f"sign-in {self.rates.kind} {name}"
        rate = getattr(self.rates, name)
        usage: dict[str, Any] | None = get_usage(
            self.request, group=group, key=lambda *_: self.keys[name], rate=rate, increment=increment
        )
        return usage


def is_within_cap(request: HttpRequest, name: str, rate: str) -> bool:
    """Count an occurrence of something, and return whether fewer than the rate have been counted."""
    usage = get_usage(request, group="sign-in", key=lambda *_: name, rate=rate, increment=True)
    return not (usage and usage["should_limit"])
