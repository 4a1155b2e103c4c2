"""The sessions of a user in the admin: where each was started, and how to end it."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import HASH_SESSION_KEY
from django.contrib.auth import SESSION_KEY as USER_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone

from relayer_service.audit.recording import acted, record
from relayer_service.sign_in.limits import address_of

# What a session keeps of its start.
STARTED = "started"
MAX_BROWSER = 200
# Sessions do not say whose they are without being decoded.
MAX_READ = 5_000


@dataclass(frozen=True)
class OpenSession:
    # Stands for the key, with which anybody could use the session.
    name: str
    address: str
    browser: str
    started_at: datetime | None
    expires_at: datetime
    is_current: bool
    key: str


def remember_start(request: HttpRequest) -> None:
    browser = request.META.get("HTTP_USER_AGENT", "")[:MAX_BROWSER]
    request.session[STARTED] = [timezone.now().isoformat(), address_of(request), browser]


def sessions_of(user: User, current_key: str | None = None) -> Iterator[OpenSession]:
    """Yield the sessions that a user is signed in with, those that last longest first."""
    valid = Session.objects.filter(expire_date__gt=timezone.now()).order_by("-expire_date")
    for row in valid[:MAX_READ]:
        data: dict[str, Any] = row.get_decoded()
        # Those from before a change of the password are void.
        fresh = hmac.compare_digest(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())
        if data.get(USER_KEY) == str(user.pk) and fresh:
            started, address, browser = data.get(STARTED) or (None, "", "")
            yield OpenSession(
                hashlib.sha256(row.session_key.encode()).hexdigest()[:16],
                address,
                browser,
                datetime.fromisoformat(started) if started else None,
                row.expire_date,
                row.session_key == current_key,
                row.session_key,
            )


def end(user: User, name: str, current_key: str | None) -> int:
    """End the session with a name, or with "" all but the current one; return how many ended."""
    chosen = [each for each in sessions_of(user, current_key) if (each.name == name if name else not each.is_current)]
    with transaction.atomic():
        Session.objects.filter(session_key__in=[each.key for each in chosen]).delete()
        record([acted(user, f"Ended the session from {each.address or 'an unknown address'}") for each in chosen])
    return len(chosen)
