"""The overview's cards of fee tokens, and of the calls of the last day through all relayers."""

from collections import Counter

from django.http import HttpRequest
from django.urls import reverse

from relayer_service.admin.attention import read_once
from relayer_service.admin.charts import HOURS, LastDay, bars
from relayer_service.admin.dashboard import Card, alarm, link
from relayers.attention import list_url as relayers_list_of
from rpc import attention, errors
from rpc.calls import LATENCY_AXIS, OK, OK_COLOUR, Group, Sums, latency
from rpc.models import CallHour

ANSWERED, OF_CALLERS, FAILED = "Answered", "Callers' mistakes", "Failed"
COLOURS = {ANSWERED: OK_COLOUR, OF_CALLERS: "var(--color-orange-400)", FAILED: "var(--color-red-500)"}
TITLE = "JSON-RPC calls of the last 24 hours"


def fee_tokens(request: HttpRequest) -> Card | None:
    """Return the overview's card of fee tokens by the state of their price."""
    if not request.user.has_perm("rpc.view_feetoken"):
        return None
    page = reverse("admin:rpc_feetoken_changelist")
    rows = [
        [link(name.capitalize(), attention.list_of(name)), alarm(found[0].total if found else 0)]
        for name, found in read_once(request, attention.named).items()
    ]
    return Card("Fee tokens without a price", rows, url=page)


def calls(request: HttpRequest) -> Card | None:
    """Return the card of calls, which counts apart what failed: what callers got wrong is no outage."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    day = LastDay()
    hours: list[list[Group]] = [[] for _ in range(HOURS)]
    bars_of = {name: [0] * HOURS for name in COLOURS}
    failures = Counter[str]()
    for group in groups_since(day):
        position, name = day.position(group.hour), judged(group.outcome)
        hours[position].append(group)
        bars_of[name][position] += group.calls
        if name == FAILED:
            failures[group.outcome] += group.calls
    total = Sums(group for hour in hours for group in hour)
    rows = [
        ["Calls", f"{total.calls:,}"],
        [OF_CALLERS, f"{sum(bars_of[OF_CALLERS]):,}"],
        [FAILED, alarm(sum(bars_of[FAILED]))],
        *([cause(request, outcome), f"{calls:,}"] for outcome, calls in failures.most_common()),
        ["Slowest", "-" if total.slowest is None else f"{total.slowest:,} ms"],
    ]
    datasets = [*latency(hours), *(bars(name, bars_of[name], colour) for name, colour in COLOURS.items())]
    return Card(TITLE, rows, chart=day.chart(datasets, latency=LATENCY_AXIS))


def groups_since(day: LastDay) -> list[Group]:
    rows = CallHour.objects.filter(hour__gte=day.start).order_by("hour", "outcome")
    return [Group(row.hour, "", row.outcome, row.calls, row.milliseconds, row.slowest_milliseconds) for row in rows]


def judged(outcome: str) -> str:
    if outcome == OK:
        return ANSWERED
    return OF_CALLERS if outcome in errors.CLIENT_ERRORS else FAILED


def cause(request: HttpRequest, outcome: str) -> str:
    """Return the name of an error, with a link to where it is seen."""
    name = f"{errors.MESSAGES.get(outcome, 'Error')} ({outcome})"
    if outcome == str(errors.InternalError.code):
        return f"{name}: the log of the service has it"
    if outcome == str(errors.NodesUnreachable.code):
        return link(name, relayers_list_of("disabled"))
    if outcome != str(errors.PriceUnavailable.code):
        return link(name, reverse("admin:relayers_relayer_changelist"))
    return link(name, reverse("admin:rpc_feetoken_changelist")) if request.user.has_perm("rpc.view_feetoken") else name
