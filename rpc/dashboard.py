"""The overview's cards of fee tokens and of calls."""

from collections import Counter

from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.charts import Period, range_links
from relayer_service.admin.dashboard import Card, alarm, link
from relayer_service.observability import call_counts
from relayer_service.observability.call_counts import ALL_RELAYERS, OK, Tally
from relayers.attention import list_url as relayers_list_of
from rpc import attention, errors
from rpc.calls import LATENCY_AXIS, OK_COLOUR, datasets

ANSWERED, CLIENT_ERRORS, FAILED = "Answered", "Client errors", "Failed"
COLOURS = {ANSWERED: OK_COLOUR, CLIENT_ERRORS: "var(--color-orange-400)", FAILED: "var(--color-red-500)"}


def fee_tokens(request: HttpRequest) -> Card | None:
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    page = reverse("admin:rpc_feetoken_changelist")
    counts = attention.counts(read_once(request, attention.first_tokens))
    rows = [[link(name.capitalize(), attention.list_url(name)), alarm(counts[name])] for name in attention.TITLES]
    return Card("Fee tokens without a price", rows if counts else [], "None: every price is current.", page)


def calls(request: HttpRequest) -> Card | None:
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
        *([cause(request, outcome), f"{calls:,}"] for outcome, calls in failures.most_common()),
        ["p95", total.latency()],
    ]
    chart = period.chart(datasets(counted, period, category, COLOURS), latency=LATENCY_AXIS)
    return Card(title, facts, chart=chart, ranges=ranges, anchor="calls")


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
