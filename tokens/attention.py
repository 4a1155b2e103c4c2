"""Access tokens that need attention."""

from typing import Any

from django.db.models import Count, Window
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timeuntil

from relayer_service.admin.attention import AttentionSubject, Cause, Example
from relayer_service.admin.dates import ago
from tokens.models import EXPIRES_SOON, SOON, AccessToken, states

TITLE = "Access tokens that expire within 14 days"


def access_tokens(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("tokens.view_accesstoken"):
        return None
    soon = AccessToken.objects.filter(states()[EXPIRES_SOON]).order_by("expires_at", "pk")
    first: Any = soon.annotate(total=Window(Count("*"))).first()
    if first is None:
        return AttentionSubject("access tokens", [])
    page = f"{reverse('admin:tokens_accesstoken_changelist')}?state={EXPIRES_SOON.replace(' ', '+')}"
    cause = Cause("tokens.expiring", "", TITLE, first.total, "token", page, first.expires_at - SOON)
    return AttentionSubject("access tokens", [cause], lambda causes: {cause.key: example(first)})


def example(token: Any) -> Example:
    page = reverse("admin:tokens_accesstoken_change", args=[token.pk])
    when = f"{token.expires_at:%Y-%m-%d %H:%M} UTC, in {timeuntil(token.expires_at, timezone.now(), depth=1)}"
    used = f"last used {ago(token.last_used_at)}" if token.last_used_at else "never used"
    return Example(str(token), page, f"Expires on {when}; {used}.")
