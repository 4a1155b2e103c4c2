"""Actions of the list of transactions: cancel, speed up and resend the selected rows, or all of a filter, as jobs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from django.contrib import admin
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse

from chain.networks import Network
from chain.units import coins
from relayer_service.console.base import ResourceAdmin
from relayer_service.console.confirmation import COUNT_BATCH, PendingAction, ReasonForm, Table
from relayer_service.console.jobs import ask_or_start
from relayer_service.console.lists.changelists import MAX_LISTED
from relayer_service.jobs.kinds import kind
from relayer_service.storage.selections import Selection
from transactions.console import formatting
from transactions.models import FINAL, Attempt, Transaction
from transactions.records.networks import known_network
from transactions.requests.possible_actions import maximum_cost, refusal

# The maximum cost of so many is computed while the page waits.
MAX_COSTED = 1_000
MAX_REASONS = 5
# The action of each job that can cost something. To resend the same bytes costs no more than sending them.
PRICED: dict[str, str] = {
    "cancel_transactions": Transaction.Action.CANCEL,
    "speed_up_transactions": Transaction.Action.SPEED_UP,
}
NO_TABLE = Table([], [])


class BulkAdmin(ResourceAdmin):
    actions = ["cancel_selected", "speed_up_selected", "resend_selected"]

    def has_control_permission(self, request: HttpRequest, obj: object | None = None) -> bool:
        return bool(request.user.has_perm("transactions.change_transaction") and self.has_view_permission(request))

    @admin.action(description="Cancel selected transactions", permissions=["control"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Transaction]) -> HttpResponse:
        return self._ask_or_start(request, "cancel", queryset)

    @admin.action(description="Speed up selected transactions", permissions=["control"])
    def speed_up_selected(self, request: HttpRequest, queryset: QuerySet[Transaction]) -> HttpResponse:
        return self._ask_or_start(request, "speed_up", queryset)

    @admin.action(description="Resend selected transactions", permissions=["control"])
    def resend_selected(self, request: HttpRequest, queryset: QuerySet[Transaction]) -> HttpResponse:
        return self._ask_or_start(request, "resend", queryset)

    def _ask_or_start(self, request: HttpRequest, verb: str, queryset: QuerySet[Transaction]) -> HttpResponse:
        pending = PendingAction.in_list(request, f"{verb}_selected", queryset, limit=MAX_LISTED)
        return self.ask_or_start(request, pending, f"{verb}_transactions")

    def ask_or_start(self, request: HttpRequest, pending: PendingAction, name: str) -> HttpResponse:
        form = ReasonForm(request.POST if pending.is_confirmed else None, required=False)
        if pending.is_confirmed:
            return ask_or_start(request, self, pending, name, NO_TABLE, form=form)
        rows = self.get_queryset(request).order_by()
        count = pending.count(rows.exclude(status__in=FINAL))
        final = len(pending.selection) - count
        texts = forecast(rows, pending.selection, count, name)
        if final:
            texts.append(f"Already final, and skipped: {kind(name).counted(final)}.")
        columns: dict[str, Callable[[Transaction], str]] = {
            "Relayer": formatting.sender,
            "Status": lambda row: formatting.badge(row.status),
            "Value": formatting.value,
        }
        return ask_or_start(request, self, pending, name, pending.first(rows, columns), texts, final, form)


def forecast(rows: QuerySet[Transaction], selection: Selection, count: int, name: str) -> list[str]:
    """Return what a job can cost at most in total, and why it would be refused now for some of `count` open rows."""
    action = PRICED.get(name)
    if not action or not count:
        return []
    if count > MAX_COSTED:
        return [f"The maximum cost is not computed for more than {MAX_COSTED:,} transactions."]
    costs: dict[Network | None, int] = defaultdict(int)
    unknown, refusals = 0, Counter[str]()
    for row in open_rows(rows, selection):
        if reason := refusal(row, action):
            refusals[reason] += 1
        elif (cost := maximum_cost(row, action)) is None:
            unknown += 1
        else:
            costs[known_network(row)] += cost
    amounts = sorted(amount(cost, network) for network, cost in costs.items() if cost)
    texts = [f"After that, they can cost at most, including their values: {', '.join(amounts)}."] if amounts else []
    if unknown:
        texts.append(f"Without a maximum cost, as they have no price yet: {unknown:,}.")
    return [*texts, *(f"Not possible for {number:,}: {text}" for text, number in refusals.most_common(MAX_REASONS))]


def open_rows(rows: QuerySet[Transaction], selection: Selection) -> Iterator[Transaction]:
    attempts = Prefetch("attempts", Attempt.objects.defer("raw"))
    chosen = rows.exclude(status__in=FINAL).select_related("last_attempt").defer("last_attempt__raw")
    for keys in selection.batches(COUNT_BATCH):
        yield from chosen.filter(pk__in=keys).prefetch_related(attempts)


def amount(cost: int, network: Network | None) -> str:
    return f"{coins(cost, network)} on {network.name}" if network else coins(cost, network)
