"""Many attempts to sign in at once: those that are judged are at most as many as may fail."""

import ipaddress
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

from relayer_service.console.sign_in import login_page as sign_in_page
from relayer_service.models import SecondFactor
from relayer_service.sign_in.limits import PASSWORDS
from relayer_service.sign_in.models import enable
from tests.concurrency import PATIENCE_SECONDS, in_threads
from tests.relayer_service.api.test_throttling import shared_cache
from tests.relayer_service.sign_in.signing_in import LOGIN, NOW, PASSWORD, sign_in

HOME, ELSEWHERE, PROXY = "198.51.100.7", "203.0.113.9", "10.0.0.1"
KEY = b"12345678901234567890".hex()
ATTEMPTS = 32
NAMES = ["alice", "ALICE", "Alice", " alice", "alice\t", "\u2003alice ", "\uff41lice", "\U0001d41alice"]

pytestmark = pytest.mark.django_db(transaction=True)


class Judge:
    """Stands in for what judges an attempt: it waits until every attempt is judged or has been refused."""

    def __init__(self, judge: Callable[..., Any]) -> None:
        self.judge = judge
        self.judged = self.arrived = 0
        self.changed = threading.Condition()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self.changed:
            self.judged += 1
            self.arrived += 1
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.arrived >= ATTEMPTS, PATIENCE_SECONDS)
        return self.judge(*args, **kwargs)

    def attempt(self, work: Callable[[], Any]) -> int:
        status: int = work().status_code
        with self.changed:
            self.arrived += status == 429
            self.changed.notify_all()
        return status

    def statuses(self, works: Sequence[Callable[[], Any]]) -> list[int]:
        return sorted(in_threads(*[partial(self.attempt, work) for work in works]))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)


@pytest.fixture(autouse=True, params=["local", "redis"])
def counts(request: pytest.FixtureRequest, settings: Any) -> None:
    """They are in the memory of one process, or in the cache that processes share."""
    if request.param == "redis":
        settings.CACHES = shared_cache(request.getfixturevalue("redis_url"))
        cache.clear()


@pytest.fixture(autouse=True)
def alice(settings: Any, monkeypatch: pytest.MonkeyPatch) -> User:
    """A user who can sign in. As many can be judged at once as attempt it."""
    settings.WEB_THREADS = 16 * ATTEMPTS
    monkeypatch.setattr(sign_in_page, "HASHING", threading.BoundedSemaphore(ATTEMPTS))
    monkeypatch.setattr(sign_in_page, "PASSWORDS", replace(PASSWORDS, pair="3/15m", account="5/h", address="6/15m"))
    return User.objects.create_superuser("alice", password=PASSWORD)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Judge:
    found = Judge(authenticate)
    monkeypatch.setattr("django.contrib.auth.forms.authenticate", found)
    return found


def guess(name: str, address: str, forwarded_for: str = "") -> Any:
    form = {"username": name, "password": "wrong"}
    return Client().post(LOGIN, form, headers={"X-Forwarded-For": forwarded_for}, REMOTE_ADDR=address)


@pytest.mark.parametrize(("peer", "client"), [(HOME, "{}, {}"), (PROXY, "{},{} ,198.51.100.7")])
def test_one_client_is_judged_up_to_the_limit_by_any_name(judge: Judge, settings: Any, peer: str, client: str) -> None:
    settings.TRUSTED_PROXIES = [ipaddress.ip_network("10.0.0.0/8")]
    works = []
    for number in range(ATTEMPTS):
        spoofed = f"192.0.2.{number}"
        works.append(partial(guess, NAMES[number % len(NAMES)], peer, client.format(spoofed, spoofed)))
    assert (judge.statuses(works), judge.judged) == ([200] * 3 + [429] * (ATTEMPTS - 3), 3)
    # The refused attempts count nowhere: neither the account nor the address is locked.
    assert sign_in("alice", address=ELSEWHERE).status_code == 302
    assert sign_in("bob", "wrong", HOME).status_code == 200


def test_an_account_is_judged_up_to_its_limit_over_all_addresses(judge: Judge) -> None:
    works = [partial(guess, "alice", f"192.0.2.{number}") for number in range(ATTEMPTS)]
    assert (judge.statuses(works), judge.judged) == ([200] * 5 + [429] * (ATTEMPTS - 5), 5)


def test_an_address_is_judged_up_to_its_limit_over_all_accounts(judge: Judge) -> None:
    works = [partial(guess, f"user-{number}", HOME) for number in range(ATTEMPTS)]
    assert (judge.statuses(works), judge.judged) == ([200] * 6 + [429] * (ATTEMPTS - 6), 6)


def test_codes_are_judged_up_to_the_limit(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    enable(alice, KEY, step=-1)
    client = Client()
    client.force_login(alice)
    judge = Judge(lambda *_: "")
    monkeypatch.setattr(SecondFactor, "verify", lambda self, text: judge(text))

    def give_code() -> Any:
        own = Client()
        own.cookies.update(client.cookies)
        return own.post("/admin/login/code/", {"code": "000000"}, REMOTE_ADDR=HOME)

    assert (judge.statuses([give_code] * ATTEMPTS), judge.judged) == ([200] * 5 + [429] * (ATTEMPTS - 5), 5)
