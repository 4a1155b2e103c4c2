"""Limits on sign-ins: what locks whom out, before any password is hashed, and what is recorded of it."""

import threading
import time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.urls import reverse
from django.utils import timezone

from relayer_service.background.shares import SIGNING_IN
from relayer_service.background.tasks import prune_sign_in_addresses
from relayer_service.console.sign_in import login_page as sign_in_page
from relayer_service.models import AuditEntry, SignInAddress
from relayer_service.server import rsgi
from relayer_service.sign_in.limits import PASSWORDS, Rates
from tests.concurrency import in_threads
from tests.relayer_service.sign_in.signing_in import NOW, fail, recorded, sign_in

HOME, OFFICE, ELSEWHERE = "198.51.100.7", "198.51.100.8", "203.0.113.9"
ALICE = ("alice", "alice", HOME, "Signed in")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the limits, which a test moves on."""
    moments = [NOW]
    monkeypatch.setattr("django_ratelimit.core.time.time", lambda: moments[-1])
    return moments


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that few requests reach."""
    monkeypatch.setattr(sign_in_page, "PASSWORDS", replace(PASSWORDS, pair="3/15m", account="5/h", address="5/15m"))
    monkeypatch.setattr(sign_in_page, "UNKNOWN_ACCOUNT_ENTRIES", "4/h")


@pytest.fixture(autouse=True)
def alice(user: User) -> User:
    User.objects.update(is_staff=True)
    return user


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each password that was hashed."""
    found: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: Any, password: str, salt: str) -> str:
        found.append(password)
        return str(encode(self, password, salt))

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    return found


@pytest.mark.parametrize("username", ["alice", "nobody"])
def test_an_address_that_guesses_is_refused_before_hashing_for_a_while(
    hashed: list[str], clock: list[float], username: str
) -> None:
    assert fail(username, times=3) == [200] * 3
    assert len(hashed) == 3
    refused = sign_in(username)
    assert (refused.status_code, len(hashed)) == (429, 3)
    assert 0 < int(refused["Retry-After"]) <= 15 * 60
    assert "There were too many failed attempts to sign in. Try again in " in refused.content.decode()
    clock.append(NOW + int(refused["Retry-After"]) + 1)
    assert sign_in(username).status_code == (302 if username == "alice" else 200)


def test_variants_of_a_name_and_addresses_of_one_ipv6_network_count_together() -> None:
    for number, variant in enumerate(["ALICE", " alice", "\uff41lice"]):
        fail(variant, f"2001:db8:0:1::{number}")
    assert sign_in("alice", address="2001:db8:0:1:ffff::1").status_code == 429
    assert sign_in("alice", address="2001:db8:0:2::1").status_code == 302


def test_others_cannot_lock_a_user_out_of_an_address_used_before() -> None:
    assert sign_in("alice", address=HOME).status_code == 302
    # From many addresses, and from the same address with other names.
    for number in range(5):
        fail("alice", f"192.0.2.{number}")
        fail(f"user-{number}", HOME)
    assert sign_in("alice", address=ELSEWHERE).status_code == 429
    assert fail("bob", HOME) == [429]
    assert sign_in("alice", address=HOME).status_code == 302
    # It is limited by its own failures.
    assert fail("alice", HOME, times=4) == [200] * 3 + [429]


def test_an_address_is_forgotten_after_30_days() -> None:
    sign_in("alice", address=HOME)
    sign_in("alice", address=OFFICE)
    long_ago = timezone.now() - timedelta(days=30)
    SignInAddress.objects.filter(address=HOME).update(last_at=long_ago)
    for number in range(5):
        fail("alice", f"192.0.2.{number}")
    assert [sign_in("alice", address=each).status_code for each in (HOME, OFFICE)] == [429, 302]
    prune_sign_in_addresses.call_local()
    assert list(SignInAddress.objects.values_list("address", flat=True)) == [OFFICE]


def test_successes_count_nothing() -> None:
    fail("alice", times=2)
    assert {sign_in("alice").status_code for _ in range(6)} == {302}
    assert fail("alice", times=2) == [200, 429]


def test_an_attempt_that_could_not_be_judged_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("django.contrib.auth.forms.authenticate", Mock(side_effect=OperationalError))
        for _ in range(4):
            with pytest.raises(OperationalError):
                sign_in("alice")
    assert fail("alice", times=4) == [200] * 3 + [429]


def test_passwords_are_hashed_on_half_of_the_cores(
    transactional_db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEB_THREADS = 64
    most, running, lock = 0, 0, threading.Lock()
    encode = MD5PasswordHasher.encode

    def count(hasher: MD5PasswordHasher, password: str, salt: str) -> str:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        found = encode(hasher, password, salt)
        # Lets others run, which would hash now.
        time.sleep(0.01)
        with lock:
            running -= 1
        return found

    monkeypatch.setattr(MD5PasswordHasher, "encode", count)
    monkeypatch.setattr(sign_in_page, "HASHING", threading.BoundedSemaphore(1))
    in_threads(*[partial(sign_in, f"nobody-{number}", "wrong") for number in range(SIGNING_IN.size)])
    assert most == 1


def test_incomplete_forms_are_no_failures(hashed: list[str]) -> None:
    for _ in range(4):
        sign_in("", "wrong")
        sign_in("alice", "")
    assert (hashed, recorded()) == ([], [])
    assert sign_in("alice").status_code == 302


def test_sign_ins_failures_locks_and_sign_outs_are_recorded() -> None:
    fail("alice", times=2)
    signed_in = sign_in("alice")
    fail("alice", times=2)
    signed_in.client.post("/admin/logout/", REMOTE_ADDR=HOME)
    unknown, *rest = recorded()
    assert unknown == ("", "alice", HOME, "Sign-in failed: wrong password")
    assert rest[0] == ALICE
    assert rest[1][:3] == ("", "alice", HOME)
    assert rest[1][3].startswith("Sign-in locked for ")
    assert rest[1][3].endswith(" min after 3 failures: this account is locked for this address")
    assert rest[2:] == [("alice", "alice", HOME, "Signed out")]


def test_locks_of_an_account_and_of_an_address_are_recorded_once() -> None:
    for number in range(6):
        fail("alice", f"192.0.2.{number}")
        fail(f"user-{number}", HOME)
    locks = [(entry[1], entry[3].partition(": ")[2]) for entry in recorded() if "locked" in entry[3]]
    assert sorted(locks) == [
        ("alice", "this account is locked for addresses that it has not signed in from"),
        ("unknown account", "this address is locked for accounts that have not signed in from it"),
    ]


def test_a_password_typed_as_the_name_is_stored_nowhere_and_cannot_flood_the_log() -> None:
    sign_in("my-secret-password", "wrong")
    assert recorded() == [("", "unknown account", HOME, "Sign-in failed: wrong password")]
    assert Session.objects.count() == SignInAddress.objects.count() == 0
    for number in range(2):
        fail(f"user-{number}", HOME)
    assert AuditEntry.objects.count() == 1
    for number in range(6):
        fail(f"user-{number}", f"192.0.2.{number}")
    assert AuditEntry.objects.count() == 4
    fail("alice")
    assert AuditEntry.objects.count() == 5


def test_the_limits_of_passwords_and_the_page_that_has_them() -> None:
    assert Rates("password", pair="10/15m", account="50/h", address="50/15m") == PASSWORDS
    assert reverse("admin:login") == rsgi.LOGIN_PATH
