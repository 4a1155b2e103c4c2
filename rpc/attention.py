"""The fee tokens that need attention, as they have no current price, by network."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Min, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import MAX_CAUSES, AttentionSubject, Cause, Example, read_once
from rpc.models import FeeToken

TITLES = {
    "failed": "token prices cannot be read",
    "stale": "token prices are stale",
    "not read yet": "token prices were never read",
}
REASONS = {
    "stale": "The worker has not read its price for several minutes.",
    "not read yet": "The worker reads prices every minute, but has not read this one yet.",
}


def fee_tokens(request: HttpRequest) -> AttentionSubject | None:
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    found = read_once(request, first_tokens)
    examples = {cause(token).key: example(token) for token in found}
    return AttentionSubject("fee tokens", [cause(token) for token in found], lambda causes: examples)


def first_tokens() -> list[Any]:
    """Return the first token of each network in each of these states, with their number and the earliest start."""
    group: Any = {"partition_by": ["state", "network"]}
    tokens = (
        FeeToken.objects.with_state()
        .filter(state__in=TITLES)
        .annotate(
            place=Window(RowNumber(), order_by="symbol", **group),
            total=Window(Count("*"), **group),
            since=Window(Min(Coalesce("rated_at", "created_at")), **group),
            newest=Window(Max(Coalesce("rated_at", "created_at")), **group),
        )
    )
    return list(tokens.filter(place=1)[:MAX_CAUSES])


def cause(token: Any) -> Cause:
    url, title = list_url(token.state, network=token.network), f"{token.network}: {TITLES[token.state]}"
    return Cause(
        f"prices.{token.state}",
        token.network,
        title,
        token.total,
        "fee token",
        url,
        token.since,
        "danger",
        newest=token.newest,
    )


def counts(found: Sequence[Any]) -> Counter[str]:
    """Return the number of tokens by state, from the first ones."""
    total = Counter[str]()
    for token in found:
        total[token.state] += token.total
    return total


def example(token: Any) -> Example:
    page = reverse("admin:rpc_feetoken_change", args=[token.pk])
    reason = token.rate_error.removeprefix(f"{token}: ") if token.state == "failed" else REASONS[token.state]
    return Example(str(token), page, reason)


def list_url(name: str, **query: str) -> str:
    return f"{reverse('admin:rpc_feetoken_changelist')}?{urlencode({'state': name} | query)}"
