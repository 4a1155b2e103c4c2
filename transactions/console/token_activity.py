"""On a token's page: what was requested with it, in total by asset; after a leak, canceling what is pending."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html

from chain.networks import network_by_chain_id
from chain.units import coin
from relayer_service.amounts import Currency
from relayer_service.console.confirmation import PendingAction, Table
from relayer_service.console.dates import exact
from relayer_service.console.lists.changelists import MAX_LISTED
from relayer_service.console.panels import object_view
from relayer_service.console.references import link
from spending.console.currencies import Currencies, find_currencies
from spending.erc20 import decode
from transactions.console import formatting, token_calls
from transactions.console.exports import network_name, paid
from transactions.console.panels import MAX_SUMMED, linked, transactions_url
from transactions.console.permissions import TransactionsPanel
from transactions.models import IN_FLIGHT, Status, Transaction
from transactions.records.requesters import HAS_TEXT_ALONE, requested_with

# In the order of the page.
NATIVE, GAS, TOKEN, ALLOWANCE = range(4)
NAMES = ["{}", "Gas ({})", "{} {}", "Largest allowance of {} {}"]
LONG = '<span class="long">{}</span>'
MAX_SHOWN = 20
AT_MOST = "At most {} are canceled at once: repeat this when the job has ended."
UNSENT = (Status.PENDING, *IN_FLIGHT)
SUMMED = ["pk", "status", "succeeded", "to", "value_text", "created_at", "gas_used", "effective_gas_price_text"]
TOTAL_HEADERS = ["Asset", "Network", "Transactions", "Sent", "Can still be sent"]
SENT_HEADERS = ["Transaction", "Accepted", "Requested by", "Relayer", "Status", "To", "Value", "Call"]


class Asset(NamedTuple):
    chain_id: int
    kind: int
    contract: str = ""


@dataclass
class Total:
    """Exact amounts in the smallest unit; of allowances the largest, as they do not add up."""

    transactions: int = 0
    sent: int = 0
    unsent: int = 0


class TokenTransactions(TransactionsPanel):
    """What a token requested, with those that it succeeds or that succeed it: they share limits."""

    template = "admin/transactions/token.html"
    views = ["cancel_pending"]

    def context(self, request: HttpRequest, token: Any) -> dict[str, Any]:
        rows = Transaction.objects.filter(requester=token.family_key).order_by("-sequence")
        summed = rows.annotate(call=token_calls.CALL_START)
        read = list(summed.values_list(*SUMMED, "lane__chain_id", "call", named=True)[:MAX_SUMMED])
        chosen = [row for row in read if not token.since or row.created_at >= token.since]
        counts = Counter(row.status for row in chosen)
        found = totals(chosen)
        symbols = find_currencies({(network_name(each.chain_id), each.contract) for each in found if each.contract})
        parts = {
            "facts": {str(status.label): linked(counts[status], listed(token, status)) for status in Status},
            "totals": Table(TOTAL_HEADERS, [total_row(*item, symbols) for item in sorted(found.items())]),
            "is_partial": len(chosen) == MAX_SUMMED,
            "summed": f"{MAX_SUMMED:,}",
            "links": {"All of them": listed(token)},
        }
        if token.since:
            shown = Transaction.objects.filter(pk__in=[row.pk for row in chosen[:MAX_SHOWN]])
            newest = shown.select_related("relayer", "lane__watch").order_by("-sequence")
            parts["sent"] = Table(SENT_HEADERS, [sent_row(row, symbols) for row in newest], len(chosen) - MAX_SHOWN)
            url = self.url("cancel_pending", token)
            parts |= {"cancel_url": url, "cancel_only_url": f"{url}?only"} if self._may_cancel(request) else {}
        return {"token_transactions": parts}

    def _may_cancel(self, request: HttpRequest) -> bool:
        return bool(self._transactions.has_control_permission(request))

    @property
    def _transactions(self) -> Any:
        return self.admin.admin_site._registry[Transaction]

    @object_view("view", asks_first=True)
    def cancel_pending(self, request: HttpRequest, token: Any) -> HttpResponse:
        """Ask to cancel what the token requested, with its successors or alone; then do it in a job."""
        if not self._may_cancel(request):
            raise PermissionDenied
        rows = unsent(token, with_successors="only" not in request.GET)
        if not rows.exists():
            self.admin.message_user(request, "Nothing is pending.", messages.WARNING)
            return HttpResponseRedirect(self.url("leaked", token))
        pending = replace(PendingAction.in_list(request, "", rows, limit=MAX_LISTED), back=self.url("leaked", token))
        if len(pending.selection) == MAX_LISTED:
            self.admin.message_user(request, AT_MOST.format(f"{MAX_LISTED:,}"), messages.WARNING)
        response: HttpResponse = self._transactions.ask_or_start(request, pending, "cancel_transactions")
        return response


def listed(token: Any, status: str = "") -> str:
    query = {"token": token.key, "kind": "all"} | ({"status": status} if status else {})
    return transactions_url(**query)


def unsent(token: Any, *, with_successors: bool) -> Any:
    """Return what a token requested that can still be canceled, and what its successors did."""
    tokens = type(token).objects.filter(pk=token.pk)
    own = Q(requested_with(tokens.values("key"), len(token.key)))
    others = Q(requested_with(tokens.successors().values("key"), len(token.key))) if with_successors else Q()
    rows = Transaction.objects.filter(HAS_TEXT_ALONE | Q(requester=token.family_key), own | others)
    return rows.filter(status__in=UNSENT, finished_at=None).order_by("sequence")


def assets(row: Any) -> Iterator[tuple[int, str, int]]:
    """Yield the assets that a payload moves, or allows others to: kind, contract and amount."""
    if value := int(row.value_text):
        yield NATIVE, "", value
    # NULL on SQLite, where there is no data.
    if row.to and (call := decode(bytes(row.call or b""))):
        yield ALLOWANCE if call.function == "approve" else TOKEN, row.to, call.amount


def totals(rows: Iterable[Any]) -> dict[Asset, Total]:
    found: dict[Asset, Total] = defaultdict(Total)
    for row in rows:
        # Without a result, it may have been executed.
        is_sent = row.status in (Status.MINED, Status.CONFIRMED) and row.succeeded is not False
        for kind, contract, amount in assets(row):
            total, add = found[Asset(row.lane__chain_id, kind, contract)], max if kind == ALLOWANCE else int.__add__
            total.transactions += 1
            total.sent = add(total.sent, amount) if is_sent else total.sent
            total.unsent = add(total.unsent, amount) if row.status in UNSENT else total.unsent
        if fee := paid(row.gas_used, row.effective_gas_price_text):
            gas = found[Asset(row.lane__chain_id, GAS)]
            gas.transactions, gas.sent = gas.transactions + 1, gas.sent + fee
    return found


def total_row(asset: Asset, total: Total, symbols: Currencies) -> list[str]:
    network, name = network_by_chain_id(asset.chain_id), network_name(asset.chain_id)
    currency = symbols.get((name, asset.contract), Currency()) if asset.contract else coin(network)
    symbol = currency.symbol or ("unverified token" if asset.contract else "wei")
    shown = format_html(NAMES[asset.kind], symbol, formatting.shortened(asset.contract))
    amounts = [format_html(LONG, token_calls.exact_amount(each, currency)) for each in (total.sent, total.unsent)]
    return [shown, name, f"{total.transactions:,}", *amounts]


def sent_row(row: Transaction, symbols: Currencies) -> list[str]:
    shown = "other data" if row.data else "-"
    if row.to and (call := decode(bytes(row.data))):
        words = token_calls.words(row, call, symbols)
        shown = format_html(LONG, formatting.token_call(row, call, words, is_short=True))
    to = formatting.shortened(row.to) if row.to else "new contract"
    status = formatting.badge(row.status)
    return [
        *(link(row), exact(row.created_at), row.requested_by, formatting.sender(row), status, to),
        *(formatting.value(row), shown),
    ]
