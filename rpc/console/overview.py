"""What the overview shows of fee tokens without a current price, and of JSON-RPC calls."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django.db.models import Count, Max, Min, Window
from django.db.models.functions import Coalesce, RowNumber
from django.http import HttpRequest
from django.urls import reverse

from relayer_service.console.overview.attention import MAX_CAUSES, AttentionSubject, Cause, Example, read_once
from relayer_service.console.overview.charts import Period, range_links
from relayer_service.console.overview.dashboard import Card, alarm, link
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import ALL_RELAYERS, OK, Tally
from relayers.console.overview import list_url as relayers_list_of
from rpc import errors
from rpc.console.calls import LATENCY_AXIS, OK_COLOUR, datasets
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
ANSWERED, CLIENT_ERRORS, FAILED = "Answered", "Client errors", "Failed"
COLOURS = {ANSWERED: OK_COLOUR, CLIENT_ERRORS: "var(--color-orange-400)", FAILED: "var(--color-red-500)"}


def attention(request: HttpRequest) -> AttentionSubject | None:
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
        network=token.network,
    )


def counts_by_state(found: Sequence[Any]) -> Counter[str]:
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


def fee_tokens_card(request: HttpRequest) -> Card | None:
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    page = reverse("admin:rpc_feetoken_changelist")
    counts = counts_by_state(read_once(request, first_tokens))
    rows = [[link(name.capitalize(), list_url(name)), alarm(counts[name])] for name in TITLES]
    return Card("Fee tokens without a price", rows if counts else [], "None: every price is current.", page)


def calls_card(request: HttpRequest) -> Card | None:
    """Return the card of calls. Client errors are counted separately, as they are no outage."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    period = Period.from_request(request)
    title, ranges = f"JSON-RPC calls in the last {period.range.title}", range_links(request, period.range)
    counted = [*call_counts.read(ALL_RELAYERS, period.start, subject="")]
    if not counted:
        return Card(title, empty="There were no calls.", ranges=ranges, anchor="calls")
    counts, failures = Counter[str](), Counter[str]()
    for key, tally in counted:
        counts[category(key.outcome)] += tally.calls
        if category(key.outcome) == FAILED:
            failures[key.outcome] += tally.calls
    total = Tally.total(tally for _, tally in counted)
    facts = [
        ["Calls", f"{total.calls:,}"],
        [CLIENT_ERRORS, f"{counts[CLIENT_ERRORS]:,}"],
        [FAILED, alarm(counts[FAILED])],
        *([failure_link(request, outcome), f"{calls:,}"] for outcome, calls in failures.most_common()),
        ["p95", total.latency()],
    ]
    chart = period.chart(datasets(counted, period, category, COLOURS), latency=LATENCY_AXIS)
    return Card(title, facts, chart=chart, ranges=ranges, anchor="calls")


def category(outcome: str) -> str:
    if outcome == OK:
        return ANSWERED
    return CLIENT_ERRORS if outcome in errors.CLIENT_ERRORS else FAILED


def failure_link(request: HttpRequest, outcome: str) -> str:
    """Return the name of an error, with a link to the list that shows its cause."""
    name = f"{errors.MESSAGES.get(outcome, 'Error')} ({outcome})"
    if outcome == str(errors.InternalError.code):
        return f"{name}: see the service's log"
    if outcome == str(errors.NodesUnreachable.code):
        return link(name, relayers_list_of("disabled"))
    if outcome != str(errors.PriceUnavailable.code):
        return link(name, reverse("admin:relayers_relayer_changelist"))
    return link(name, reverse("admin:rpc_feetoken_changelist")) if request.user.has_perm("rpc.view_feetoken") else name
