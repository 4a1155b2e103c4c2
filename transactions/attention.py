"""Lanes that do not send, and transactions that wait longer than expected, on the overview."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

from django.db.models import Count, F, Min, Q
from django.http import HttpRequest
from django.urls import reverse

from chain.networks import networks
from relayer_service.admin.attention import (
    MINUTE,
    SHOWN,
    AttentionGroup,
    AttentionItem,
    AttentionSubject,
    counts_of,
    first_of,
    number_of,
    read_once,
)
from relayer_service.extensions import is_enabled
from relayer_service.storage.clock import DatabaseNow
from relayers.models import Relayer
from transactions import formatting
from transactions.admin_filters import HELD
from transactions.models import IN_FLIGHT, OPEN, Lane, Status, TopUp, Transaction, Waiting
from transactions.panels import transactions_url
from transactions.reasons import status_reason
from transactions.strip import EXPECTED_BLOCKS, MINIMUM_WAIT

NEEDED = ["transactions.view_transaction", "transactions.view_lane"]
TITLES: dict[str, str] = {
    HELD: "Held lanes",
    Waiting.FUNDS: "Lanes that wait for funds",
    Waiting.SIGNER: "Lanes whose signer fails",
    Waiting.NODES: "Lanes whose nodes do not answer",
}
# A lane that has waited for less may go on in its next turn.
CONDITIONS: dict[str, Q] = {
    HELD: Q(held_since__isnull=False),
    **{each: Q(waiting=each, held_since=None, waiting_since__lt=DatabaseNow() - MINUTE) for each in Waiting},
}
SINCE: dict[str, str] = {HELD: "held_since", **dict.fromkeys(Waiting.values, "waiting_since")}
COLUMNS = [
    *("chain_id", "address", "holds", "waiting", "waiting_details"),
    *("relayer__identifier", "relayer__name", "relayer__network"),
]


def transactions(request: HttpRequest) -> AttentionSubject | None:
    if not may_view(request):
        return None
    counts, lanes = read_once(request, numbers), read_once(request, first_lanes)
    groups = [
        AttentionGroup(title, [lane_item(lane) for lane in lanes[name]], counts[name], lanes_url(name), variant(name))
        for name, title in TITLES.items()
        if lanes[name]
    ]
    return AttentionSubject("transactions", [*groups, *late_group(), *top_up_group()])


def may_view(request: HttpRequest) -> bool:
    return is_enabled("transactions") and bool(request.user.has_perms(NEEDED))


def variant(name: str) -> str:
    return "danger" if name == HELD else "warning"


def numbers() -> dict[str, int]:
    """Return the number of lanes by problem, and of open transactions by status."""
    lanes = {name: number_of(Lane.objects.filter(condition)) for name, condition in CONDITIONS.items()}
    requests = Transaction.objects.filter(status__in=OPEN)
    return counts_of(lanes | {str(status): number_of(requests.filter(status=status)) for status in OPEN})


def first_lanes() -> dict[str, list[Any]]:
    shown = Lane.objects.select_related("relayer").only(*COLUMNS)
    return first_of({name: shown.annotate(since=F(SINCE[name])) for name in TITLES}, CONDITIONS)


def lane_item(lane: Any) -> AttentionItem:
    return AttentionItem(name_of(lane.relayer, lane), lane_url(lane.pk), formatting.lane_reason(lane), lane.since)


def lane_url(key: int) -> str:
    return reverse("admin:transactions_lane_change", args=[key])


def name_of(relayer: Relayer | None, lane: Lane) -> str:
    if relayer is None:
        return str(lane)
    return f"{relayer.name} ({relayer.identifier}) on {relayer.network}"


def lanes_url(name: str) -> str:
    state = HELD if name == HELD else "waiting"
    return f"{reverse('admin:transactions_lane_changelist')}?state={state}"


def is_late() -> Q:
    """Return the condition of transactions that have waited longer than their network usually takes."""
    slow: dict[float, list[int]] = defaultdict(list)
    for network in networks().values():
        if network.block_seconds * EXPECTED_BLOCKS > MINIMUM_WAIT.total_seconds():
            slow[network.block_seconds * EXPECTED_BLOCKS].append(network.chain_id)
    condition = Q(status__in=[Status.PENDING, *IN_FLIGHT], created_at__lt=DatabaseNow() - MINIMUM_WAIT)
    for seconds, chains in slow.items():
        wait = timedelta(seconds=seconds)
        condition &= ~Q(lane__chain_id__in=chains) | Q(created_at__lt=DatabaseNow() - wait)
    return condition


def late_lanes() -> list[tuple[int, int]]:
    """Return the first late transaction of each lane and how many are late, the oldest first.

    Lanes that are held or wait are reported themselves.
    """
    late = Transaction.objects.filter(is_late(), lane__held_since=None, lane__waiting="").order_by()
    groups = late.values("lane").annotate(first=Min("sequence"), rows=Count("pk"))
    return list(groups.order_by("first").values_list("first", "rows"))


def late_group() -> list[AttentionGroup]:
    found = late_lanes()
    if not found:
        return []
    rows = Transaction.objects.select_related("lane__watch", "relayer").defer(
        "data", "revert_data", "relayer__custom_rpc_urls", "relayer__private_rpc_urls"
    )
    first = rows.in_bulk([pk for pk, _ in found[:SHOWN]])
    items = [late_item(first[pk], count) for pk, count in found[:SHOWN] if pk in first]
    title = "Relayers whose transactions wait longer than expected"
    return [AttentionGroup(title, items, len(found), transactions_url(None))]


def late_item(row: Transaction, count: int) -> AttentionItem:
    why = formatting.readable(status_reason(row, row.lane))
    waiting = "1 transaction waits" if count == 1 else f"{count:,} transactions wait"
    reason = f"{waiting}; the oldest is {row.status}{f': {why}' if why else '.'}"
    # The page that says why, and what to do.
    return AttentionItem(name_of(row.relayer, row.lane), lane_url(row.lane_id), reason, row.created_at)


def top_up_group() -> list[AttentionGroup]:
    """Return the relayers that are not topped up, as their funding relayer cannot pay or its transaction failed."""
    rows = TopUp.objects.filter(due_at__isnull=False).select_related("relayer").order_by("pk")
    found = list(rows.defer("relayer__custom_rpc_urls", "relayer__balance_hours")[:SHOWN])
    if not found:
        return []
    total = rows.count() if len(found) == SHOWN else len(found)
    page = reverse("admin:relayers_relayer_changelist")
    return [AttentionGroup("Relayers that are not topped up", [top_up_item(each) for each in found], total, page)]


def top_up_item(top_up: TopUp) -> AttentionItem:
    relayer = top_up.relayer
    page = reverse("admin:relayers_relayer_change", args=[relayer.pk])
    name = f"{relayer.name} ({relayer.identifier}) on {relayer.network}"
    return AttentionItem(name, page, top_up.reason, top_up.created_at)
