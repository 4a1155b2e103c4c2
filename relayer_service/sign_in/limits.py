"""Limits on failed sign-ins, in the shared cache, with the windows and keys of django-ratelimit.

Failures count per account and address, per account over all addresses, and per address over all accounts. The last two
do not apply at an address from which the account has signed in before: others cannot lock its user out there. An
attempt counts from before it is judged, so that many at once pass no limit; a success is given back.
"""

import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest
from django_ratelimit.core import EXPIRATION_FUDGE, _get_window, _make_cache_key, _split_rate, get_usage

from relayer_service.database import caches
from relayer_service.net.incoming import client_network
from relayer_service.sign_in.models import SignInAddress

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


class Locked(Exception):
    """Too many attempts failed; the argument is the number of seconds until another is judged."""


@dataclass(frozen=True)
class Count:
    """The failures in a window, and the attempts that are being judged; at the limit, others are refused."""

    name: str
    key: str
    number: int
    limit: int
    seconds_left: int


def address_of(request: HttpRequest) -> str:
    return client_network(request.META.get("REMOTE_ADDR", ""))


class Attempt:
    """An attempt to sign in as an account, by its name as it was typed."""

    def __init__(self, rates: Rates, request: HttpRequest, username: str) -> None:
        self.rates = rates
        self.request = request
        # Django's form reads the name in the same way.
        self.username = unicodedata.normalize("NFKC", username.strip()[:MAX_USERNAME_LENGTH])
        self.address = address_of(request)
        self._counts: list[Count] = []

    @cached_property
    def keys(self) -> dict[str, str]:
        account = self.username.casefold()
        return {"address": self.address, "account": account, "pair": f"{self.address} {account}"}

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the attempt while it is judged, and from then on unless that fails; or raise `Locked`."""
        try:
            # Read first, so that what is locked counts no longer, and adds nothing to the cache.
            if seconds := self._seconds_locked(added=0) or self._seconds_locked(added=1):
                raise Locked(seconds)
            yield
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Uncount an attempt that did not fail."""
        for count in self._counts:
            # Unless it has expired.
            with suppress(ValueError):
                cache.decr(count.key)
        self._counts = []

    def failure(self) -> tuple[bool, list[Count]]:
        """Return whether the attempt is the first of the account and address, and the limits that it reached."""
        is_first = not any(count.name == "pair" and count.number > 1 for count in self._counts)
        return is_first, [count for count in self._counts if count.number == count.limit]

    def _seconds_locked(self, added: int) -> int:
        """Count so many attempts, 0 or 1; return for how long they are refused, 0 if they are not."""
        # The address first, so that one which is locked adds nothing to the cache, whatever names it tries.
        for name in self.keys:
            count = self._count(name, added)
            if count and count.number - added >= count.limit and (name == "pair" or not self._is_known):
                return max(1, count.seconds_left)
        return 0

    @cached_property
    def _is_known(self) -> bool:
        return SignInAddress.objects.is_known(self.username, self.address)

    def _count(self, name: str, added: int) -> Count | None:
        """Return a count with what is added; None while the cache is unavailable."""
        rate, value = getattr(self.rates, name), self.keys[name]
        limit, seconds = _split_rate(rate)
        end = _get_window(value, seconds)
        key = _make_cache_key(f"sign-in {self.rates.kind} {name}", end, rate, value, None)
        number = caches.count(key, added, seconds + EXPIRATION_FUDGE)
        if number is None:
            return None
        count = Count(name, key, number, limit, end - int(time.time()))
        self._counts += [count] * added
        return count


def is_within_cap(request: HttpRequest, name: str, rate: str) -> bool:
    """Count an occurrence of something, and return whether fewer than the rate have been counted."""
    usage = get_usage(request, group="sign-in", key=lambda *_: name, rate=rate, increment=True)
    return not (usage and usage["should_limit"])
