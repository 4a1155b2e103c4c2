"""The overview's cards of fee tokens and of the last day's calls."""

from collections import Counter

from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.charts import LastDay
from relayer_service.admin.dashboard import Card, alarm, link
from relayers.attention import list_url as relayers_list_of
from rpc import attention, errors
from rpc.calls import LATENCY_AXIS, OK_COLOUR, Group, Sums, datasets
from rpc.dispatch import OK
from rpc.models import CallHour

ANSWERED, CLIENT_ERRORS, FAILED = "Answered", "Client errors", "Failed"
COLOURS = {ANSWERED: OK_COLOUR, CLIENT_ERRORS: "var(--color-orange-400)", FAILED: "var(--color-red-500)"}


def fee_tokens(request: HttpRequest) -> Card | None:
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    page = reverse("admin:rpc_feetoken_changelist")
    rows = [
        [link(name.capitalize(), attention.list_url(name)), alarm(found[0].total if found else 0)]
        for name, found in read_once(request, attention.first_tokens).items()
    ]
    return Card("Fee tokens without a price", rows, url=page)


def calls(request: HttpRequest) -> Card | None:
    """Return the card of calls. Client errors are counted separately, as they are no outage."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    day = LastDay()
    rows = CallHour.objects.filter(hour__gte=day.start).order_by("hour", "outcome")
    groups = [Group(row.hour, "", row.outcome, row.calls, row.milliseconds, row.slowest_milliseconds) for row in rows]
    counts, failures = Counter[str](), Counter[str]()
    for group in groups:
        counts[category(group.outcome)] += group.calls
        if category(group.outcome) == FAILED:
            failures[group.outcome] += group.calls
    total = Sums(groups)
    facts = [
        ["Calls", f"{total.calls:,}"],
        [CLIENT_ERRORS, f"{counts[CLIENT_ERRORS]:,}"],
        [FAILED, alarm(counts[FAILED])],
        *([cause(request, outcome), f"{calls:,}"] for outcome, calls in failures.most_common()),
        ["Slowest", "-" if total.slowest is None else f"{total.slowest:,} ms"],
    ]
    chart = day.chart(datasets(groups, day, category, COLOURS), latency=LATENCY_AXIS)
    return Card("JSON-RPC calls in the last 24 hours", facts, chart=chart)


def category(outcome: str) -> str:
    if outcome == OK:
        return ANSWERED
    return CLIENT_ERRORS if outcome in errors.CLIENT_ERRORS else FAILED


def cause(request: HttpRequest, outcome: str) -> str:
    """Return the name of an error, with a link to the list that shows its cause."""
    name = f"{errors.MESSAGES.get(outcome, 'Error')} ({outcome})"
    if outcome == str(errors.InternalError.code):
        return f"{name}: see the service's log"
    if outcome == str(errors.NodesUnreachable.code):
        return link(name, relayers_list_of("disabled"))
    if outcome != str(errors.PriceUnavailable.code):
        return link(name, reverse("admin:relayers_relayer_changelist"))
    return link(name, reverse("admin:rpc_feetoken_changelist")) if request.user.has_perm("rpc.view_feetoken") else name
