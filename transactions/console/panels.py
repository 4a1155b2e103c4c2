"""Panels: the progress and attempts of a transaction, the nonces of a lane, the lane and the gas of a relayer."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html

from chain.broadcast.sending import Outcome
from chain.networks import networks
from chain.units import coins
from relayer_service.amounts import decimal_text
from relayer_service.audit.models import AuditEntry
from relayer_service.console.dates import ago, ago_titled, exact
from relayer_service.console.lists.changelists import counted
from relayer_service.console.overview.charts import AMOUNT_TICKS, RANGES, Period, bars
from relayer_service.console.overview.dashboard import label
from relayer_service.console.panels import Panel, object_view
from relayer_service.console.references import and_more, link
from relayer_service.database.clock import database_now
from relayers.models import Relayer
from transactions.console import formatting
from transactions.console.exports import paid
from transactions.console.filters import RELAYER
from transactions.console.lanes import lane_of
from transactions.console.permissions import TransactionsPanel, may_view_transactions
from transactions.console.token_calls import find_symbols, read_words
from transactions.console.top_ups import purpose
from transactions.lanes.prices.pricing import price_text
from transactions.models import FINAL, IN_FLIGHT, IS_IN_FLIGHT, OPEN, Attempt, Lane, Status, StatusChange, Transaction
from transactions.records.networks import known_network
from transactions.records.reasons import positions, status_reason
from transactions.records.requesters import PUBLIC_PART

MAX_CHANGES = 50
MAX_ATTEMPTS = 50
MAX_IN_FLIGHT = 50
NEWEST_SHOWN = 5
ATTEMPT_HEADERS = ["No.", "Purpose", "Hash", "Gas price", "Gas limit", "Broadcasts", "Last outcome", "Accepted"]
NEWEST_HEADERS = ["Transaction", "Status", "To", "Value", "Created"]
NONCE_HEADERS = ["Nonce", "Transaction", "Status", "Attempts", "Gas price", "Sent"]
GAS_AXIS = {"beginAtZero": True, "ticks": AMOUNT_TICKS}
# Rows that are summed, so that the page of a busy relayer costs the same as any other.
MAX_SUMMED = 10_000


def transactions_url(relayer: Relayer | None = None, **query: str) -> str:
    chosen = {RELAYER: str(relayer.pk)} if relayer else {}
    return f"{reverse('admin:transactions_transaction_changelist')}?{urlencode(chosen | query)}"


class Progress(Panel):
    """The status of a transaction, why it is not further, and its timeline."""

    template = "admin/transactions/progress_panel.html"
    views = ["progress"]

    class Media:
        js = ["relayer_service/jobs.js"]

    @object_view("view", "GET")
    def progress(self, request: HttpRequest, row: Transaction) -> HttpResponse:
        """Return the panel alone, for the script that follows a transaction until it is final."""
        return TemplateResponse(request, "admin/transactions/progress.html", self.context(request, row))

    def context(self, request: HttpRequest, row: Transaction) -> dict[str, Any]:
        attempt, is_over = row.attempt, row.status in FINAL
        none = "none" if is_over else "none yet"
        facts = {
            "Status": formatting.badge(row.status),
            "Relayer": link(row.relayer) if row.relayer else "deleted",
            "Network": formatting.network_name(row),
            "Lane": lane_link(request, row.lane),
            "Nonce": none if row.nonce is None else str(row.nonce),
            "ID": formatting.copied("ID", row.identifier),
            "Hash": formatting.explorer_link(row, "tx", attempt.hash, "hash") if attempt else none,
            **purpose(row),
        }
        # The template shows the acceptance, with who requested it.
        later = StatusChange.objects.filter(transaction=row).exclude(from_status="", to_status=Status.PENDING)
        changes = list(later.order_by("-version")[:MAX_CHANGES])
        readable = partial(formatting.readable, network=known_network(row), symbols=find_symbols([row]))
        reason = readable(status_reason(row, row.lane, positions([row]).get(row.pk)))
        requests = AuditEntry.objects.for_row(row).filter(action=AuditEntry.Action.ACTED).reverse()[:MAX_CHANGES]
        entries = [*map(timeline_entry, changes), *map(request_entry, requests)]
        entries = [entry | {"details": readable(entry["details"])} for entry in entries]
        row.requester_link = requester_link(request, row)  # type: ignore[attr-defined]  # for a field of the page, too
        lines = sorted(entries, key=lambda entry: entry["at"], reverse=True)
        shown = {"facts": facts, "reason": reason, "lines": lines, "row": row, "is_over": is_over}
        url = "" if is_over else self.url("progress", row)
        return {"progress": {**shown, "fund_url": fund_url(row)}, "progress_url": url}


def fund_url(row: Transaction) -> str:
    """Return where to top up the relayer of a row that waits for funds; "" for other rows."""
    is_unfunded = row.status == Status.PENDING and row.reason_code == Transaction.Reason.FUNDS
    if not (is_unfunded and row.relayer and row.relayer.address):
        return ""
    return f"{reverse('admin:relayers_relayer_change', args=[row.relayer.pk])}#fund"


def lane_link(request: HttpRequest, lane: Lane) -> str:
    if not request.user.has_perm("transactions.view_lane"):
        return lane.address
    page = reverse("admin:transactions_lane_change", args=[lane.pk])
    return format_html('<a class="underline" href="{}">{}</a>', page, formatting.shortened(lane.address))


def requester_link(request: HttpRequest, row: Transaction) -> str:
    """Return who requested a row: a token is linked if it exists, for staff who can view tokens."""
    # The text of a top-up has the ID of a relayer, and no requester.
    key = PUBLIC_PART.search(row.requested_by) if row.requester else None
    if key is None or not request.user.has_perm("tokens.view_accesstoken"):
        return row.requested_by
    # By its label: this app does not import tokens.
    token = apps.get_model("tokens.AccessToken").objects.filter(key=key[1]).first()
    return link(token, row.requested_by) if token else row.requested_by


def timeline_entry(change: StatusChange) -> dict[str, Any]:
    # After a reorg, a mined transaction is submitted again.
    reorged = change.from_status == Status.MINED and change.to_status == Status.SUBMITTED
    text = str(change.get_to_status_display()) + (" again" if reorged else "")
    block = f"block {change.block_number:,}" if change.block_number is not None else ""
    return {"at": change.at, "change": text, "details": ", ".join(filter(None, [block, change.reason]))}


def request_entry(entry: AuditEntry) -> dict[str, Any]:
    """Return what was requested, by whom and why, and what it replaced."""
    what, _, reason = entry.reason.rstrip(".").partition(": ")
    return {"at": entry.at, "change": what, "details": "; ".join(filter(None, [reason, *entry.lines]))}


class Attempts(Panel):
    """What was signed for a transaction, and what nodes answered, the newest first."""

    template = "admin/transactions/attempts.html"

    def context(self, request: HttpRequest, row: Transaction) -> dict[str, Any]:
        attempts = row.attempts.defer("raw").order_by("-number")
        shown = list(attempts[:MAX_ATTEMPTS])
        rows = [
            [
                str(attempt.number),
                str(attempt.get_purpose_display()),
                formatting.explorer_link(row, "tx", attempt.hash),
                price_text(attempt),
                f"{attempt.gas_limit:,}",
                broadcasts(attempt),
                outcome(attempt, is_mined=attempt.pk == row.mined_attempt_id),
                exact(attempt.accepted_at),
            ]
            for attempt in shown
        ]
        # Attempts are numbered without gaps.
        more = and_more(shown[0].number - len(shown)) if shown else ""
        none = "Nothing was signed." if row.status in FINAL else "Nothing was signed yet."
        table = {"headers": ATTEMPT_HEADERS, "rows": rows}
        return {"signed_attempts": table, "attempts_more": more, "no_attempts": none}


def broadcasts(attempt: Attempt) -> str:
    if not attempt.last_broadcast_at:
        return str(attempt.broadcasts)
    return format_html("<span>{}, last {}</span>", attempt.broadcasts, ago_titled(attempt.last_broadcast_at))


def outcome(attempt: Attempt, *, is_mined: bool) -> str:
    if is_mined and attempt.outcome == Outcome.NONCE_TOO_LOW:
        # That its nonce is used follows from its block.
        return label("in a block", "success")
    texts = [attempt.outcome.replace("_", " "), attempt.error]
    text = ": ".join(filter(None, texts)) or "-"
    return format_html("<span>{} {}</span>", label("in a block", "success"), text) if is_mined else text


class LaneState(Panel):
    """The nonces of a lane, its holds, what it waits for, and the rows in flight."""

    template = "admin/transactions/lane.html"

    def context(self, request: HttpRequest, obj: Lane) -> dict[str, Any]:
        lane = lane_of(obj)
        rows = Transaction.objects.filter(IS_IN_FLIGHT, lane=lane).select_related("last_attempt")
        shown = list(rows.defer("data", "revert_data", "last_attempt__raw").order_by("nonce")[:MAX_IN_FLIGHT])
        return {
            "lane_state": {
                "facts": lane_facts(lane),
                "holds": list(formatting.hold_entries(lane)),
                "waiting": "" if formatting.is_behind(lane) else lane.get_waiting_display(),
                "lane": lane,
                "table": {"headers": NONCE_HEADERS, "rows": [nonce_row(row) for row in shown]},
                "more": and_more(in_flight(lane) - len(shown)),
                "all_url": transactions_url(lane.relayer, kind="all"),
            }
        }


def in_flight(lane: Any) -> int:
    return sum(lane.open_counts[status] for status in IN_FLIGHT)


def number(value: int | None, unset: str = "not read yet") -> str:
    return unset if value is None else str(value)


def lane_facts(lane: Any) -> dict[str, str]:
    facts = {
        "State": formatting.lane_badges(lane),
        "Chain nonce": number(lane.chain_nonce),
        "Final nonce": number(lane.final_nonce),
        "Next nonce": number(lane.next_nonce),
        "In flight": f"{in_flight(lane):,}",
        "Queued": counted(lane.open_counts[Status.PENDING]),
        "Mined, not final": f"{lane.open_counts[Status.MINED]:,}",
        "Head since": ago(lane.head_since) if lane.head_since else "-",
        "Window": number(lane.window, "that of the network"),
        "Epoch": str(lane.epoch),
        "Worker": "has a lease" if lane.lease and lane.due_at > database_now() else "none",
    }
    if lane.seal_below is not None:
        facts["Closing nonces below"] = str(lane.seal_below)
    return facts


def nonce_row(row: Transaction) -> list[str]:
    attempt = row.last_attempt
    kind = "" if row.kind == Transaction.Kind.REQUEST else f" ({row.get_kind_display()})"
    return [
        str(row.nonce),
        format_html("{}{}", link(row), kind),
        formatting.badge(row.status),
        str(attempt.number if attempt else 0),
        price_text(attempt) if attempt else "-",
        ago_titled(row.sent_at),
    ]


class RelayerLane(TransactionsPanel):
    """On a relayer's page: its open and newest transactions, its nonces, and why its lane does not send."""

    tab = "transactions"
    template = "admin/transactions/relayer_lane.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        lane = lane_of(relayer)
        if lane is None:
            return {"relayer_lane": {"facts": {}}}
        counts = {
            str(status.label): linked(lane.open_counts[status], transactions_url(relayer, status=status))
            for status in OPEN
        }
        nonces = {"Chain nonce": number(lane.chain_nonce), "Next nonce": number(lane.next_nonce)}
        facts = {"Lane": formatting.lane_badges(lane), "Account": lane_link(request, lane), **counts, **nonces}
        links: Sequence[tuple[str, str]] = [
            ("All its transactions", transactions_url(relayer)),
            ("Failed", transactions_url(relayer, status=Status.FAILED)),
        ]
        shown = {"facts": facts, "reason": formatting.lane_reason(lane), "links": links, "newest": newest(relayer)}
        return {"relayer_lane": shown}


def newest(relayer: Relayer) -> dict[str, Any]:
    found = Transaction.objects.filter(relayer=relayer).select_related("lane").order_by("-sequence")
    shown = list(found.defer("data", "revert_data")[:NEWEST_SHOWN])
    calls, _ = read_words(shown)
    rows = []
    for row in shown:
        # As read already.
        row.relayer = relayer
        row.token_call = calls.get(row.pk, "")  # type: ignore[attr-defined]
        state, receiver = formatting.badge(row.status), formatting.listed_receiver(row)
        rows.append([link(row), state, receiver, formatting.listed_value(row), ago_titled(row.created_at)])
    return {"headers": NEWEST_HEADERS, "rows": rows}


def linked(number: int, url: str) -> str:
    return format_html('<a class="underline" href="{}">{}</a>', url, counted(number)) if number else "0"


def last_transactions(request: HttpRequest, relayers: Collection[int]) -> dict[int, datetime | None] | None:
    """Return when each relayer got its newest transaction, by its index; None for staff who cannot view them."""
    if not may_view_transactions(request):
        return None
    newest = Transaction.objects.filter(relayer=OuterRef("pk")).order_by("-sequence").values("created_at")[:1]
    rows = Relayer.objects.filter(pk__in=relayers).order_by()
    return dict(rows.annotate(last=Subquery(newest)).values_list("pk", "last"))


class RelayerGas(TransactionsPanel):
    """On a relayer's page: the chart of the last 30 days with their total, if anything was paid."""

    tab = "transactions"
    template = "admin/transactions/relayer_gas.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        period, network = Period(RANGES["30d"]), networks().get(relayer.network)
        newest = Transaction.objects.filter(relayer=relayer).order_by("-sequence")
        rows = list(newest.values_list("finished_at", "gas_used", "effective_gas_price_text")[:MAX_SUMMED])
        days = [0] * period.count
        for finished_at, gas_used, price in rows:
            fee = paid(gas_used, price)
            if fee is not None and finished_at and finished_at >= period.start:
                days[period.position(finished_at.astimezone(UTC))] += fee
        if not any(days):
            return {"gas_panel": {}}
        decimals, unit = (network.decimals, network.symbol) if network else (0, "wei")
        # As text, which the chart parses: no number is rounded here.
        amounts = [decimal_text(amount, decimals) for amount in days]
        chart = period.chart([bars(f"Gas ({unit})", amounts, "var(--color-orange-400)")], y=GAS_AXIS)
        partial = {"is_partial": len(rows) == MAX_SUMMED, "summed": f"{MAX_SUMMED:,}"}
        return {"gas_panel": {"chart": chart, "total": coins(sum(days), network), **partial}}
