"""The fee tokens that need attention, as they have no current price."""

from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import SHOWN, AttentionGroup, AttentionItem, AttentionSubject, read_once
from rpc.models import FeeToken

TITLES = {
    "failed": "Fee tokens whose price cannot be read",
    "stale": "Fee tokens whose price is stale",
    "not read yet": "Fee tokens whose price was never read",
}
REASONS = {
    "stale": "The worker has not read its price for several minutes.",
    "not read yet": "The worker reads prices every minute, but has not read this one yet.",
}


def fee_tokens(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    groups = [
        AttentionGroup(TITLES[name], [item(name, token) for token in rows], rows[0].total, list_url(name), "danger")
        for name, rows in read_once(request, first_tokens).items()
        if rows
    ]
    return AttentionSubject("fee tokens", groups)


def first_tokens() -> dict[str, list[Any]]:
    """Return the first tokens in each of these states, with the total of the state."""
    tokens = (
        FeeToken.objects.with_state()
        .filter(state__in=TITLES)
        .annotate(
            place=Window(RowNumber(), partition_by="state", order_by=["network", "symbol"]),
            total=Window(Count("*"), partition_by="state"),
        )
    )
    rows = list(tokens.filter(place__lte=SHOWN).order_by("place"))
    return {name: [row for row in rows if row.state == name] for name in TITLES}


def item(name: str, token: Any) -> AttentionItem:
    page = reverse("admin:rpc_feetoken_change", args=[token.pk])
    reason = token.rate_error.removeprefix(f"{token}: ") if name == "failed" else REASONS[name]
    return AttentionItem(str(token), page, reason, token.rated_at)


def list_url(name: str) -> str:
    return f"{reverse('admin:rpc_feetoken_changelist')}?{urlencode({'state': name})}"
