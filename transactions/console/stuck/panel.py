"""The panel "Why is it stuck?" of a relayer and of a lane: its nonces, and what to do about each."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html

from chain.errors import ChainFault
from chain.units import coins, gwei
from relayer_service.background.shares import Busy, waiting_for_others
from relayer_service.console.dates import ago, ago_titled
from relayer_service.console.lists import changelists
from relayer_service.console.overview.dashboard import label
from relayer_service.console.panels import object_view
from relayer_service.console.references import and_more
from relayer_service.database.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers.console.formatting import amount
from relayers.models import Relayer
from transactions.console import formatting
from transactions.console.lanes import ORIGIN, lane_of
from transactions.console.permissions import TransactionsPanel
from transactions.console.stuck.cells import Cell, NonceRange, State, build_cells, expected_wait, headline, nonce_range
from transactions.console.stuck.remedies import NOTHING, OF_LANE, Remedy, for_hold, recommend
from transactions.lanes.prices.market import MarketPrice, Sender, read_market
from transactions.models import IS_IN_FLIGHT, IS_PENDING, OPEN, Lane, Status, Transaction
from transactions.records.list_payloads import LARGE_COLUMNS
from transactions.records.networks import known_network, network_of
from transactions.records.reasons import status_reason
from transactions.repair.gaps import fill_refusal
from transactions.requests import possible_actions

# Rows in flight below the nonces that are shown: their nonces are used, and it is unknown by what.
UNEXPLAINED_SHOWN = 3
# Requests without a nonce that are shown.
WAITING_SHOWN = 5
VARIANTS: dict[str, str] = {
    State.MINED: "success",
    State.IN_FLIGHT: "info",
    State.GAP: "danger",
    State.ELSEWHERE: "warning",
    State.WAITING: "default",
}
# Of the part that shows the address and what is missing.
TOP_UP_URL = "#top-up"
TRANSACTION_REMEDIES = {Remedy.SPEED_UP, Remedy.CANCEL, Remedy.RESEND}
# Of prices, from this one on.
SIGNIFICANT_DIGITS = 6
MINIMUM_ROUNDED = 10**SIGNIFICANT_DIGITS


class StuckPanel(TransactionsPanel):
    """The lane of a relayer, or a lane on its own page. The market is read in a separate request."""

    template = "admin/transactions/stuck_panel.html"
    views = ["strip"]

    class Media:
        css = {"all": ["relayers/admin.css", "transactions/admin.css"]}
        js = ["transactions/stuck.js"]

    def context(self, request: HttpRequest, obj: Relayer | Lane) -> dict[str, Any]:
        lane = lane_of(obj)
        if lane is None:
            return {"stuck": None}
        return {"stuck": describe(request, lane, {}, origin_of(obj)), "stuck_url": self.url("strip", obj)}

    @object_view("view", method="GET")
    def strip(self, request: HttpRequest, obj: Relayer | Lane) -> HttpResponse:
        lane = lane_of(obj)
        if lane is None:
            return HttpResponse()
        is_flying = Transaction.objects.filter(IS_IN_FLIGHT, lane=lane).exists()
        market = read_prices(lane) if is_flying else {}
        context = {"stuck": describe(request, lane, market, origin_of(obj))}
        return render(request, "admin/transactions/stuck.html", context)


def origin_of(obj: Relayer | Lane) -> str:
    """Return the page that actions lead back to."""
    return "relayer" if isinstance(obj, Relayer) else "lane"


def read_prices(lane: Lane) -> dict[str, MarketPrice]:
    """Return the market price by speed; {} if no node answers in time. This calls nodes, at most one batch."""
    if lane.relayer is None:
        return {}
    try:
        sender = Sender.of(lane.relayer, lane.address)
        with waiting_for_others():
            market, _ = read_market(sender)
        return {speed: market.price(speed) for speed in Transaction.Speed.values}
    except (Busy, ChainFault, DecryptionError):
        return {}


def describe(request: HttpRequest, lane: Any, market: Mapping[str, MarketPrice], origin: str) -> dict[str, Any]:
    """Return what the template shows. The number of queries does not depend on the number of rows."""
    now, patience = database_now(), expected_wait(network_of(lane.relayer).block_seconds if lane.relayer else 0)
    nonces = nonce_range(lane)
    cells = build_cells(lane, nonces, *read_rows(lane, nonces), market)
    shown = list(describe_cells(request, lane, cells, patience, now, origin))
    counts = {str(status): lane.open_counts[status] for status in OPEN}
    main = headline(lane, cells, counts, patience, now, formatting.lane_reason(lane))
    offered = [cell for cell in shown if cell["button"]]
    next_one = [cell for cell in offered if cell["is_next"]]
    # A hold is the reason of the whole lane.
    causes = [] if lane.holds else [cell["why"] for cell in next_one]
    # The button beside the headline is that of the next nonce, or else the last, which helps requests.
    first = next((cell["button"] for cell in [*next_one, *reversed(offered)]), None)
    release = button(request, lane, Cell(State.WAITING), for_hold(lane).remedy, origin) if lane.holds else None
    waiting = sum(cell.state == State.WAITING for cell in cells)
    queued = lane.open_counts[Status.PENDING]
    return {
        "title": "Why is it stuck?" if main.is_stuck else "Nonces",
        "is_stuck": main.is_stuck,
        "headline": formatting.readable(" ".join([main.text, *causes]), known_network(lane)),
        "main": release or first,
        "cells": shown,
        "more_nonces": and_more(nonces.hidden),
        "more_waiting": and_more(queued - waiting) if queued <= changelists.MAX_COUNTED else "and more",
        "top_up": top_up(lane, cells),
    }


def read_rows(lane: Lane, nonces: NonceRange) -> tuple[list[Transaction], list[Transaction]]:
    """Return the rows with these nonces and the first that wait, which read neither their lane nor relayer again."""
    rows = Transaction.objects.filter(lane=lane, epoch=lane.epoch).select_related("last_attempt", "mined_attempt")
    rows = rows.defer(*LARGE_COLUMNS).order_by("nonce")
    before = rows.filter(IS_IN_FLIGHT, nonce__lt=nonces.first)[:UNEXPLAINED_SHOWN]
    with_nonce = [*before, *rows.filter(nonce__gte=nonces.first, nonce__lt=nonces.end)]
    queue = Transaction.objects.filter(IS_PENDING, lane=lane).defer("data", "revert_data").order_by("sequence")
    waiting = list(queue[:WAITING_SHOWN])
    for row in (*with_nonce, *waiting):
        row.lane, row.relayer = lane, lane.relayer
    return with_nonce, waiting


def describe_cells(
    request: HttpRequest, lane: Lane, cells: Sequence[Cell], patience: timedelta, now: datetime, origin: str
) -> Iterator[dict[str, Any]]:
    """Yield what the template shows of each cell: what concerns several only where it comes first."""

    def refusal(cell: Cell, remedy: Remedy) -> str:
        if remedy in TRANSACTION_REMEDIES and cell.row is not None:
            return possible_actions.refusal(cell.row, remedy.value)
        return fill_refusal(lane, cell.nonce) if remedy == Remedy.FILL_GAP and cell.nonce is not None else ""

    remedies: set[Remedy] = set()
    reasons = {""}
    for cell in cells:
        advice, row = recommend(cell, lane, patience, now, refusal), cell.row
        if advice.remedy in OF_LANE & remedies:
            advice = NOTHING
        elif advice.remedy:
            remedies.add(advice.remedy)
        # Why a request has no nonce.
        reason = status_reason(row, lane) if cell.state == State.WAITING and row else ""
        yield {
            "state": cell.state.value,
            "badge": label(str(cell.state.label), VARIANTS[cell.state]),
            "nonce": cell.nonce,
            "is_next": cell.is_next,
            "url": reverse("admin:transactions_transaction_change", args=[row.pk]) if row else "",
            "name": row.identifier if row else "",
            "facts": _facts(cell, "" if reason in reasons else reason),
            "why": advice.why,
            "button": button(request, lane, cell, advice.remedy, origin),
        }
        reasons.add(reason)


def button(request: HttpRequest, lane: Lane, cell: Cell, remedy: Remedy | None, origin: str) -> dict[str, Any] | None:
    """Return the text and the URL of the page that confirms a remedy; without the permission, no URL."""
    if remedy is None:
        return None
    model = "transaction" if remedy in TRANSACTION_REMEDIES else "lane"
    url = ""
    if remedy != Remedy.TOP_UP and request.user.has_perm(f"transactions.change_{model}"):
        key = cell.row.pk if model == "transaction" and cell.row else lane.pk
        url = f"{reverse(f'admin:transactions_{model}_{remedy.value}', args=[key])}?{urlencode({ORIGIN: origin})}"
    what = {Remedy.FILL_GAP: f"at nonce {cell.nonce}", Remedy.TOP_UP: "the account"}.get(remedy, "the lane")
    if model == "transaction":
        what = "a request" if cell.nonce is None else f"nonce {cell.nonce}"
    is_top_up = remedy == Remedy.TOP_UP
    return {"text": remedy.label, "what": what, "url": TOP_UP_URL if is_top_up else url, "is_top_up": is_top_up}


def _facts(cell: Cell, reason: str) -> dict[str, str]:
    row, facts = cell.row, {}
    if row is not None:
        facts["Status"] = (
            f"{row.get_status_display()}{'' if row.kind == row.Kind.REQUEST else f', {row.get_kind_display()}'}"
        )
    if cell.since is not None:
        facts["Since"] = ago_titled(cell.since)
    if cell.state == State.IN_FLIGHT and row is not None:
        facts["Price"] = price_text(cell)
        facts["Last answer"] = last_answer(cell)
    elif reason:
        facts["Why"] = formatting.listed_reason(reason, known_network(row) if row else None)
    return facts


def price_text(cell: Cell) -> str:
    """Return the price against the market, as far as both are known."""
    if cell.price is None:
        return "-"
    if cell.market is None:
        return rounded(cell.price)
    current = cell.market.current
    text = f"{rounded(cell.price)}, market {rounded(current)}"
    if cell.price < cell.market.base_fee:
        return format_html("{} {}", text, label("below base fee", "danger"))
    return format_html("{} {}", text, label("below market", "warning")) if cell.price < current else text


def rounded(price: int) -> str:
    return gwei(round(price, SIGNIFICANT_DIGITS - len(str(price))) if price >= MINIMUM_ROUNDED else price)


def last_answer(cell: Cell) -> str:
    attempt = cell.attempt
    if attempt is None or attempt.last_broadcast_at is None:
        return "not broadcast yet"
    texts = ": ".join(filter(None, [attempt.outcome, attempt.error])) or "none"
    return format_html("{}, {}", texts, ago_titled(attempt.last_broadcast_at))


def top_up(lane: Lane, cells: Sequence[Cell]) -> dict[str, str]:
    """Return where to send what is missing, and how much that is."""
    health = lane.relayer.health if lane.relayer else None
    balance, network, read = health.balance if health else None, known_network(lane), "unknown"
    if health and balance is not None:
        read = format_html("{}, read {}", amount(balance, network), ago(health.balance_at))
    attempts = [cell.attempt for cell in cells if cell.attempt and cell.state == State.IN_FLIGHT]
    flying = sum(int(attempt.max_cost_text) for attempt in attempts)
    missing = lane.missing.amount or (0 if balance is None else flying - balance)
    start = "at least " if lane.missing.is_minimum else ""
    return {
        "address": lane.address,
        "missing": f"{start}{coins(missing, network)}" if missing > 0 else "unknown",
        "balance": read,
    }
