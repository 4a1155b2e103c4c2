"""The login page: its limits come before the password is hashed, and its outcomes are in the audit log."""

import os
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import urlencode

from relayer_service.audit.recording import acted, record
from relayer_service.background.shares import RETRY_AFTER_SECONDS, SIGNING_IN, Busy
from relayer_service.sign_in.limits import PASSWORDS, Attempt, Count, Locked, address_of, is_within_cap
from relayer_service.sign_in.models import SignInAddress
from relayer_service.sign_in.sessions import remember_start
from relayer_service.sign_in.verification import is_verified, second_factor_of

# Hashing uses a whole core: the others are left to everything else, such as `/health`.
HASHING = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))
# It is recorded in place of the typed name, which may be a password in the wrong field.
UNKNOWN_ACCOUNT = User(pk=0, username="unknown account")
# How often failures of unknown accounts are recorded, per address and in total. Others are limited by their account.
ONCE, UNKNOWN_ACCOUNT_ENTRIES = "1/15m", "100/h"
LOCKED = {
    "pair": "this account is locked for this address",
    "account": "this account is locked for addresses that it has not signed in from",
    "address": "this address is locked for accounts that have not signed in from it",
}


def login(request: HttpRequest, check_password: Callable[[], HttpResponse]) -> HttpResponse:
    """Return the login page, or a redirect to the next step. Only a few users can sign in at once."""
    if request.method != "POST":
        return HttpResponseRedirect(next_step(request)) if has_next_step(request) else check_password()
    attempt = Attempt(PASSWORDS, request, request.POST.get("username", ""))
    if not (attempt.username and request.POST.get("password")):
        return check_password()
    try:
        with SIGNING_IN.occupied(), attempt.counted(), HASHING:
            response = check_password()
    except Locked as locked:
        return locked_page(locked.args[0])
    except Busy:
        text = "Too many people are signing in right now. Try again in a few seconds."
        return retry_page(HTTPStatus.SERVICE_UNAVAILABLE, text, RETRY_AFTER_SECONDS)
    if response.status_code != HTTPStatus.FOUND:
        record_failure(attempt, User.objects.filter(username=attempt.username).first(), "wrong password")
        return response
    attempt.give_back()
    if second_factor_of(request.user) is None:
        record_sign_in(request, "Signed in")
    return HttpResponseRedirect(next_step(request)) if has_next_step(request) else response


def has_next_step(request: HttpRequest) -> bool:
    """Return whether the user has given the password, and has yet to give a code or to set up a second factor."""
    user = request.user
    return bool(user.is_active and user.is_authenticated and user.is_staff and not is_verified(request))


def next_step(request: HttpRequest) -> str:
    """Return the URL of the page that asks for a code, or of the one that sets up a second factor."""
    page = "set_up" if second_factor_of(request.user) is None else "code"
    wanted = request.POST.get(REDIRECT_FIELD_NAME, request.GET.get(REDIRECT_FIELD_NAME, ""))
    query = f"?{urlencode({REDIRECT_FIELD_NAME: wanted})}" if wanted else ""
    return reverse(f"admin:second_factor_{page}") + query


def locked_page(seconds: int) -> HttpResponse:
    minutes = -(-seconds // 60)
    wait = "a minute" if minutes == 1 else f"{minutes} minutes"
    text = f"There were too many failed attempts to sign in. Try again in {wait}."
    return retry_page(HTTPStatus.TOO_MANY_REQUESTS, text, seconds)


def retry_page(status: HTTPStatus, text: str, seconds: int) -> HttpResponse:
    context = {"title": "Try again later", "text": text, "back": reverse("admin:login")}
    page = render_to_string("admin/try_again.html", context)
    return HttpResponse(page, status=status, headers={"Retry-After": str(seconds)})


def record_sign_in(request: HttpRequest, how: str) -> None:
    user: Any = request.user
    with transaction.atomic():
        record([acted(user, how)])
        SignInAddress.objects.remember(user, address_of(request))
    remember_start(request)


def record_sign_out(request: HttpRequest) -> None:
    if request.method == "POST" and isinstance(request.user, User):
        with transaction.atomic():
            record([acted(request.user, "Signed out")])


def record_failure(attempt: Attempt, user: User | None, fault: str) -> None:
    """Record the first failed attempt of an account and address, and each that reached a limit."""
    is_first, locks = attempt.failure()
    if user is None:
        is_first = is_within_cap(attempt.request, f"unknown accounts of {attempt.address}", ONCE)
    reasons = [f"Sign-in failed: {fault}"] if is_first else []
    reasons += [locked_reason(lock) for lock in locks]
    if reasons and (user or is_within_cap(attempt.request, "unknown accounts", UNKNOWN_ACCOUNT_ENTRIES)):
        with transaction.atomic():
            record([acted(user or UNKNOWN_ACCOUNT, reason) for reason in reasons])


def locked_reason(lock: Count) -> str:
    minutes = -(-lock.seconds_left // 60)
    return f"Sign-in locked for {minutes} min after {lock.limit} failures: {LOCKED[lock.name]}"
