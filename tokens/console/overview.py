"""What the overview shows of access tokens: those that expire, those used last, and the step to the first one."""

from typing import Any

from django.db.models import Count, Window
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timeuntil

from relayer_service.console.dates import ago, to_the_minute
from relayer_service.console.overview.attention import AttentionSubject, Cause, Example
from relayer_service.console.overview.dashboard import Card
from relayer_service.console.overview.getting_started import DEMO, Demo, Step, add_page
from relayer_service.extensions import available_scopes
from tokens.models import EXPIRES_SOON, SOON, AccessToken, states
from tokens.writes import issue

TITLE = "Access tokens that expire within 14 days"


def attention(request: HttpRequest) -> AttentionSubject | None:
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
    when = f"{to_the_minute(token.expires_at)}, in {timeuntil(token.expires_at, timezone.now(), depth=1)}"
    used = f"last used {ago(token.last_used_at)}" if token.last_used_at else "never used"
    return Example(str(token), page, f"Expires on {when}; {used}.")


def card(request: HttpRequest) -> Card | None:
    """Return the card of the tokens that were used last."""
    if not request.user.has_perm("tokens.view_accesstoken"):
        return None
    tokens = AccessToken.objects.filter(last_used_at__isnull=False).select_related("user").order_by("-last_used_at")
    rows = [[token.name, token.user.get_username(), ago(token.last_used_at)] for token in tokens[:5]]
    url = reverse("admin:tokens_accesstoken_changelist")
    return Card("Tokens used last", rows, "No token has been used yet.", url)


def step(request: HttpRequest) -> Step:
    # Only superusers set scopes.
    scopes = {"scopes": ",".join(available_scopes())} if request.user.is_superuser else {}
    return Step(
        "token",
        "Issue a token",
        "A program calls the API with it.",
        ["tokens.add_accesstoken"],
        AccessToken.objects.all(),
        lambda: add_page("tokens_accesstoken", name="First application", **scopes),
        set_up,
    )


def set_up(demo: Demo) -> None:
    """Issue a token of the user, unless the user has one of the demo: its text cannot be shown again."""
    found = AccessToken.objects.filter(name=DEMO, user=demo.user).first()
    if found is None:
        scopes = available_scopes() if demo.user.is_superuser else []
        found, demo.token = issue(name=DEMO, user=demo.user, scopes=scopes)
    demo.rows["Token"] = found
