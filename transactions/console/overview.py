"""What the overview shows of lanes and transactions: problems by network, the card, and the step to the first one."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib import admin
from django.db.models import Case, Min, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince

from chain.networks import networks
from relayer_service.api.idempotency import body_digest
from relayer_service.audit.recording import acted, record
from relayer_service.console.lists.changelists import MAX_LISTED, count_up_to_maximum, counted
from relayer_service.console.lists.filters import midnight
from relayer_service.console.overview.attention import (
    MINUTE,
    NOT_SEVERE,
    UNKNOWN,
    AttentionSubject,
    Cause,
    Example,
    GroupedRows,
    counts_of,
    grouped,
    number_of,
    read_groups,
    read_once,
)
from relayer_service.console.overview.dashboard import Card, alarm, label, link
from relayer_service.console.overview.getting_started import DEMO, Demo, Step
from relayer_service.database.clock import DatabaseNow
from relayer_service.database.literals import with_literals
from relayer_service.extensions import is_enabled
from relayers.models import Relayer
from transactions.console import formatting
from transactions.console.filters import HELD, WAITING
from transactions.console.formatting import BEHIND_END, BEHIND_START
from transactions.console.panels import transactions_url
from transactions.console.stuck.cells import EXPECTED_BLOCKS, MINIMUM_WAIT, no_new_block
from transactions.models import (
    IN_FLIGHT,
    IS_DISPUTED,
    IS_HALTED,
    IS_IN_FLIGHT,
    IS_IN_STATUS,
    IS_OPEN,
    IS_OVER_LIMIT,
    NEEDS_FUNDS,
    OPEN,
    Lane,
    Status,
    TopUp,
    Transaction,
    Waiting,
)
from transactions.records.networks import known_network
from transactions.records.queues import with_oldest_due
from transactions.records.reasons import status_reason
from transactions.requests.accepting import SendRequest, accept

NEEDED = ["transactions.view_transaction", "transactions.view_lane"]
# A lane that has waited for less may go on in its next turn.
CONDITIONS: dict[str, Q] = {
    # One that cannot pay for what would end its hold waits for funds.
    HELD: Q(held_since__isnull=False) & ~Q(waiting=Waiting.FUNDS),
    **{
        each: with_literals(~Q(waiting=""))
        # Funds must be reported within a minute.
        & Q(waiting=each, waiting_since__lt=DatabaseNow() - (MINUTE / 2 if each == Waiting.FUNDS else MINUTE))
        & (Q(held_since=None) | Q(waiting=Waiting.FUNDS))
        for each in Waiting
    },
}
# Also those of which nothing is known now.
IS_SHORT_OF_FUNDS = CONDITIONS[Waiting.FUNDS] | (NEEDS_FUNDS & ~Q(waiting=Waiting.FUNDS))
# Its nodes have answered, with an old block.
IS_BEHIND = Q(waiting_details__startswith=BEHIND_START, waiting_details__endswith=BEHIND_END)
# The health check reports the relayers of such lanes.
IS_UNREACHABLE = Q(relayer__health__failed_checks__gt=0)
LANES, TRANSACTIONS = "lanes.", "transactions."
LATE, UNSENT, TOP_UPS, HALTED = "transactions.late", "unsent", "topups", "lanes.halted"
BEHIND, FAILING = "lanes.behind", "transactions.failing"
LIMIT, DISPUTED = "transactions.limit", "transactions.disputed"
LANE, ROW, RELAYER = "transactions_lane", "transactions_transaction", "relayers_relayer"
# By kind, what follows the network in the title, the noun that is counted, and the list with its query.
SHOWN: dict[str, tuple[str, str, str, str]] = {
    f"{LANES}{HELD}": ("held lanes", "lane", LANE, "state=held"),
    f"{LANES}{Waiting.FUNDS}": ("lanes that wait for funds", "lane", LANE, "state=waiting&waiting=funds"),
    f"{LANES}{Waiting.SIGNER}": ("lanes whose signer fails", "lane", LANE, "state=waiting&waiting=signer"),
    f"{LANES}{Waiting.NODES}": ("lanes whose nodes do not answer", "lane", LANE, "state=waiting&waiting=nodes"),
    # Its title has the time since then.
    HALTED: ("", "lane", LANE, "state="),
    BEHIND: ("no new block on its nodes", "lane", LANE, "state=waiting&waiting=nodes"),
    LATE: ("transactions that wait longer than expected", "relayer", ROW, ""),
    LIMIT: ("transactions that wait for a spending limit", "transaction", ROW, "status=pending"),
    DISPUTED: ("transactions that nodes contradict each other about", "transaction", ROW, "status=mined"),
    FAILING: ("transactions that failed within 15 minutes", "transaction", ROW, "status=failed&finished=2-days"),
    UNSENT: ("requests that are due and have no nonce", "relayer", ROW, "status=pending"),
    TOP_UPS: ("relayers that are not topped up", "relayer", RELAYER, ""),
}
# Of problems of which no row is an example.
REASONS = {HALTED: "Nothing is mined until the chain goes on.", UNSENT: "No worker takes them, or too many wait."}
DAY = timedelta(days=1)
MAX_FAILED = 100
# So many failures within this time, on a network, are a problem of their own: one may be a mistake of its caller.
BURST, BURST_TIME = 5, timedelta(minutes=15)


def attention(request: HttpRequest) -> AttentionSubject | None:
    if not may_view(request):
        return None
    # The relayer of a lane may have been deleted.
    network = Coalesce("relayer__network", Value(""))
    queries = (grouped(kind, rows, network, *times) for kind, (rows, *times) in rows_by_kind().items())
    found = [rows for rows in read_groups(*queries) if rows.kind != FAILING or rows.number >= BURST]
    return AttentionSubject("transactions", [cause(rows) for rows in found], examples, relayers_of)


def may_view(request: HttpRequest) -> bool:
    return is_enabled("transactions") and bool(request.user.has_perms(NEEDED))


class Problem(NamedTuple):
    """The rows with a problem, since when they have it, and the start that makes it a new one, unless that is it."""

    rows: QuerySet[Any]
    since: Any
    severe: Any = NOT_SEVERE
    newest: Any = None


def rows_by_kind() -> dict[str, Problem]:
    # Lanes that are held or wait are reported themselves.
    overdue, since = DatabaseNow() - MINUTE, "waiting_since"
    enabled = {"relayer__paused": False, "relayer__health__system_disabled": False}
    unsent = with_oldest_due().filter(oldest_due__lt=overdue, held_since=None, waiting="", **enabled)
    late = late_rows().filter(lane__held_since=None, lane__waiting="", lane__watch__halted_since=None)
    late = late.exclude(status=Status.PENDING, due_at__lt=overdue, **enabled)
    rows, lanes = Transaction.objects.all(), Lane.objects.all()
    failed = rows.filter(pk__in=newest_failed()[:MAX_FAILED], kind=Transaction.Kind.REQUEST)
    unread = lanes.filter(CONDITIONS[Waiting.NODES])
    # A lane without funds whose nodes fail meanwhile does not wait anew.
    unfunded = Case(When(waiting=Waiting.FUNDS, then=since))
    return {
        f"{LANES}{HELD}": Problem(lanes.filter(CONDITIONS[HELD]), "held_since", Value(1)),
        f"{LANES}{Waiting.FUNDS}": Problem(lanes.filter(IS_SHORT_OF_FUNDS), since, newest=unfunded),
        f"{LANES}{Waiting.SIGNER}": Problem(lanes.filter(CONDITIONS[Waiting.SIGNER]), since),
        f"{LANES}{Waiting.NODES}": Problem(unread.exclude(IS_BEHIND).exclude(IS_UNREACHABLE), since),
        HALTED: Problem(lanes.filter(IS_HALTED), "watch__halted_since", Value(1)),
        BEHIND: Problem(unread.filter(IS_BEHIND).exclude(IS_HALTED), since, Value(1)),
        LATE: Problem(late, "created_at", newest=UNKNOWN),
        LIMIT: Problem(rows.filter(IS_OVER_LIMIT), "created_at", newest=UNKNOWN),
        DISPUTED: Problem(rows.filter(IS_DISPUTED), UNKNOWN, Value(1)),
        FAILING: Problem(failed.filter(finished_at__gte=DatabaseNow() - BURST_TIME), "finished_at", newest=UNKNOWN),
        UNSENT: Problem(unsent, "oldest_due", newest=UNKNOWN),
        TOP_UPS: Problem(TopUp.objects.filter(due_at__isnull=False), "created_at"),
    }


def relayers_of(cause: Cause) -> QuerySet[Any, Any]:
    rows = rows_by_kind()[cause.kind].rows.filter(relayer__network=cause.network)
    return rows.order_by("relayer").values_list("relayer", flat=True).distinct()


def cause(rows: GroupedRows) -> Cause:
    title, unit, model, query = SHOWN[rows.kind]
    if rows.kind == HALTED:
        title = no_new_block(rows.since or timezone.now(), timezone.now()).lower()
    in_network = urlencode({"network": rows.group}) if rows.group else ""
    url = f"{reverse(f'admin:{model}_changelist')}?{'&'.join(filter(None, [query, in_network]))}"
    title = f"{rows.group or 'deleted relayers'}: {title}"
    return rows.cause(title, unit, url, REASONS.get(rows.kind, ""), rows.group)


def numbers() -> dict[str, int]:
    """Return the number of lanes by problem, and of open transactions by status, which is counted up to a maximum."""
    lanes = {name: number_of(Lane.objects.filter(condition)) for name, condition in CONDITIONS.items()}
    rows = [Transaction.objects.filter(IS_IN_STATUS[status]) for status in OPEN]
    return counts_of(lanes) | dict(zip(map(str, OPEN), count_up_to_maximum(rows), strict=True))


def examples(causes: Sequence[Cause]) -> dict[str, Example]:
    """Return the first lane, transaction or top-up of each cause, with one query per model."""
    hidden = ("relayer__custom_rpc_urls", "relayer__private_rpc_urls")
    lanes = Lane.objects.select_related("relayer").defer(*hidden)
    late = Transaction.objects.select_related("lane__watch", "relayer__health")
    late = late.defer("data", "revert_data", "relayer__health__balance_hours", *hidden)
    top_ups = TopUp.objects.select_related("relayer").defer(*hidden)
    found: dict[str, Example] = {}
    kinds: Any = ((LANES, lanes, lane_example), (TRANSACTIONS, late, late_example), (TOP_UPS, top_ups, top_up_example))
    for kind, rows, describe in kinds:
        own = [each for each in causes if each.first and each.kind.startswith(kind)]
        firsts = rows.in_bulk([each.first for each in own])
        found |= {each.key: describe(firsts[each.first]) for each in own if each.first in firsts}
    return found


def lane_example(lane: Lane) -> Example:
    return Example(name_of(lane.relayer, lane), lane_url(lane.pk), formatting.lane_reason(lane))


def late_example(row: Transaction) -> Example:
    why = formatting.readable(status_reason(row, row.lane), known_network(row))
    name = name_of(row.relayer, row.lane)
    if row.status == Status.FAILED:
        page = reverse("admin:transactions_transaction_change", args=[row.pk])
        return Example(name, page, f"The first of them: {why}")
    reason = f"The oldest is {row.status}{f': {why}' if why else '.'}"
    # The page that says why, and what to do.
    return Example(name, lane_url(row.lane_id), reason)


def top_up_example(top_up: TopUp) -> Example:
    page = reverse("admin:relayers_relayer_change", args=[top_up.relayer.pk])
    why = formatting.readable(top_up.reason, networks().get(top_up.relayer.network))
    return Example(f"{top_up.relayer.name} ({top_up.relayer.identifier})", page, why)


def name_of(relayer: Relayer | None, lane: Lane) -> str:
    return f"{relayer.name} ({relayer.identifier})" if relayer else str(lane)


def lane_url(key: int) -> str:
    return reverse("admin:transactions_lane_change", args=[key])


def lanes_url(state: str) -> str:
    return f"{reverse('admin:transactions_lane_changelist')}?{urlencode({'state': state})}"


def late_rows() -> QuerySet[Any]:
    """Return the first transaction of each lane that has waited longer than its network usually takes."""
    slow: dict[float, list[int]] = defaultdict(list)
    for network in networks().values():
        if network.block_seconds * EXPECTED_BLOCKS > MINIMUM_WAIT.total_seconds():
            slow[network.block_seconds * EXPECTED_BLOCKS].append(network.chain_id)
    waiting = Transaction.objects.filter(IS_OPEN, status__in=[Status.PENDING, *IN_FLIGHT]).order_by()
    firsts = waiting.values("lane").annotate(first=Min("pk")).values("first")
    condition = Q(pk__in=firsts, created_at__lt=DatabaseNow() - MINIMUM_WAIT)
    for seconds, chains in slow.items():
        wait = timedelta(seconds=seconds)
        condition &= ~Q(lane__chain_id__in=chains) | Q(created_at__lt=DatabaseNow() - wait)
    return Transaction.objects.filter(condition)


def card(request: HttpRequest) -> Card | None:
    """Return the card with open transactions by status, the oldest head of a lane, and lanes that do not send."""
    if not may_view(request):
        return None
    counts = read_once(request, numbers)
    page = reverse("admin:transactions_transaction_changelist")
    if not any(counts.values()) and confirmed() == "0":
        return Card("Transactions", empty="None is open, and none was confirmed in the last day.", url=page)
    waiting = sum(counts[each] for each in Waiting)
    rows = [
        *([link(status.label, transactions_url(status=status)), counted(counts[status])] for status in OPEN),
        [link("Confirmed in the last day", transactions_url(status=Status.CONFIRMED)), confirmed()],
        [link("Failed since yesterday", transactions_url(status=Status.FAILED, finished="2-days")), failed()],
        ["Longest wait for a next nonce", oldest_head()],
        [link("Held lanes", lanes_url(HELD)), alarm(counts[HELD])],
        [link("Waiting lanes", lanes_url(WAITING)), label(f"{waiting:,}", "warning") if waiting else "0"],
    ]
    return Card("Transactions", rows, url=page)


def confirmed() -> str:
    rows = Transaction.objects.filter(IS_IN_STATUS[Status.CONFIRMED], finished_at__gte=DatabaseNow() - DAY)
    count = rows.order_by()[:MAX_LISTED].count()
    return f"at least {count:,}" if count == MAX_LISTED else f"{count:,}"


def failed() -> str:
    """Return how many of the newest failed transactions have ended since yesterday."""
    start = midnight(timezone.localdate() - DAY)
    ends = newest_failed().values_list("finished_at", flat=True)[:MAX_FAILED]
    count = sum(end is not None and end >= start for end in ends)
    return f"at least {count:,}" if count == MAX_FAILED else label(f"{count:,}", "warning") if count else "0"


def newest_failed() -> QuerySet[Any]:
    return Transaction.objects.filter(IS_IN_STATUS[Status.FAILED]).order_by("-sequence")


def oldest_head() -> str:
    """Return how long the lane that has not moved for the longest waits for its next nonce to be mined."""
    oldest = Transaction.objects.filter(IS_IN_FLIGHT).aggregate(oldest=Min("lane__head_since"))["oldest"]
    return timesince(oldest, depth=1) if oldest else "-"


def step(request: HttpRequest) -> Step | None:
    if not is_enabled("transactions"):
        return None
    return Step(
        "transaction",
        "Send a transaction",
        "Done once one is confirmed.",
        ["relayers.view_relayer", "transactions.view_transaction", "transactions.add_transaction"],
        Transaction.objects.filter(IS_IN_STATUS[Status.CONFIRMED]),
        try_page,
        set_up,
        needs="relayer",
    )


def try_page() -> str:
    """Return the page of the newest relayer on which a sample is filled in."""
    newest = Relayer.objects.order_by("-sequence").values_list("pk", flat=True).first()
    return reverse("admin:relayers_relayer_try_it", args=[newest]) if newest else ""


def set_up(demo: Demo) -> None:
    relayer, by = demo.rows["Relayer"], demo.user.get_username()
    # A sample that costs only its gas.
    values = {"to": relayer.address, "value": 0}
    key = f"getting-started-{DEMO}"
    accepted = accept(SendRequest(relayer.identifier, values, by, key, body_digest(values)))
    if not accepted.is_replay:
        record([acted(accepted.row, f"Sent by {by} as the first transaction of the demo.")])
    demo.rows["Transaction"] = accepted.row
    demo.media = admin.site.get_model_admin(Transaction).media
    demo.progress_url = reverse("admin:transactions_transaction_progress", args=[accepted.row.pk])
    headers = "-H 'Idempotency-Key: first-call' -H 'Content-Type: application/json'"
    demo.call = f"/api/v1/relayers/{DEMO}/transactions {headers} -d '{json.dumps(values)}'"
