"""The panel of a relayer's balance: its chart, what leaves the account per day, and where to send coins."""

from datetime import timedelta
from typing import Any

import segno
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chain.networks import networks
from relayer_service.amounts import decimal_text
from relayer_service.console.overview.charts import AMOUNT_TICKS, RANGES, ChartRange, Period, bars, line, range_links
from relayer_service.console.panels import Panel
from relayers.console import formatting
from relayers.guards import get_guard
from relayers.health.balance_hours import by_step
from relayers.health.runway import by_day, current_runway
from relayers.models import Relayer

BALANCE_COLOUR, MINIMUM_COLOUR = "var(--color-blue-400)", "var(--color-red-500)"
OUTFLOW_COLOUR = "var(--color-orange-400)"
BALANCE_AXIS = {"beginAtZero": True, "ticks": AMOUNT_TICKS}
# What leaves the account is kept by day.
OUTFLOW_DAYS = ChartRange("7d", "7 days", 7, timedelta(days=1), "%d %b")
QR_SCALE = 4


class Balance(Panel):
    template = "admin/relayers/relayer/balance.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        period = Period.from_request(request)
        return {
            "balance_panel": {
                "facts": facts(relayer),
                "ranges": range_links(request, period.range),
                **charts(relayer, period),
                "top_up": deposit_details(relayer),
            }
        }


def facts(relayer: Relayer) -> dict[str, str]:
    """Return the last known balance with its age if the last check could not read it, and how long it lasts."""
    network, minimum = networks().get(relayer.network), relayer.policies.get("min_balance")
    found = {"Balance": formatting.aged_balance(relayer)}
    if minimum is not None:
        found["Minimum balance"] = format_html("{}: below it, a warning", formatting.amount(minimum, network))
    if relayer.reserve:
        found["Reserve"] = format_html("{}: it stops sending", formatting.amount(relayer.reserve, network))
    if lasting := current_runway(relayer):
        spent = formatting.amount(lasting.outflow_per_day, network)
        found["Spent per day"] = format_html("{} (7-day average)", spent)
        found["Runway"] = f"At this rate used up in {lasting.text}"
    return found


def charts(relayer: Relayer, period: Period) -> dict[str, Any]:
    """Return the chart of the balance with the minimum at each time, and of the outflow; {} if none was read."""
    network = networks().get(relayer.network)
    decimals, unit = (network.decimals, network.symbol) if network else (0, "wei")

    def texts(amounts: list[int | None]) -> list[str | None]:
        # As text, which the chart parses: no number is rounded here.
        return [None if amount is None else decimal_text(amount, decimals) for amount in amounts]

    balances = texts(by_step(relayer.health.balance_hours, period.bucket_starts()))
    if all(balance is None for balance in balances):
        return {}
    datasets = [stepped(f"Balance ({unit})", balances, BALANCE_COLOUR)]
    minimums = texts(by_step(relayer.health.minimum_hours, period.bucket_starts()))
    if any(minimum is not None for minimum in minimums):
        datasets.append(stepped(f"Minimum ({unit})", minimums, MINIMUM_COLOUR))
    chart = {
        "chart": period.chart(datasets, y=BALANCE_AXIS),
        "caption": f"Balance by {period.range.step_text}, in {unit}; times are in UTC.",
    }
    if not relayer.health.outflow_days:
        return chart
    days = Period(RANGES["30d"] if period.range.key == "30d" else OUTFLOW_DAYS)
    outflows = texts([*by_day(relayer.health.outflow_days, days.bucket_starts())])
    return chart | {
        "outflow_chart": days.chart([bars(f"Spent ({unit})", outflows, OUTFLOW_COLOUR)], y=BALANCE_AXIS),
        "outflow_caption": f"Spent per day on gas and transfers, in {unit}: decreases of the balance between checks.",
    }


def stepped(label: str, points: list[str | None], colour: str) -> dict[str, Any]:
    return line(label, points, colour) | {"stepped": True}


def deposit_details(relayer: Relayer) -> dict[str, Any]:
    """Return the address to send coins to, as a QR code (EIP-681) too, and what is missing; {} if it is unknown."""
    if not relayer.address:
        return {}
    network, chain_id = networks().get(relayer.network), relayer.expected_chain_id
    missing = get_guard().missing_funds([relayer.pk]).get(relayer.pk)
    explorer = network.explorer.rstrip("/") if network else ""
    return {
        "address": relayer.address,
        "is_needed": relayer.health.balance == 0,
        # Whoever sends that must send enough.
        "missing": formatting.missing_text(missing, network) if missing else "",
        "qr_code": qr_code(f"ethereum:{relayer.address}@{chain_id}" if chain_id else f"ethereum:{relayer.address}"),
        "explorer_url": f"{explorer}/address/{relayer.address}" if explorer else "",
    }


def qr_code(text: str) -> SafeString:
    """Return a QR code as SVG: black on white even in the dark theme, as cameras expect it."""
    # It consists of numbers and fixed names.
    return SafeString(segno.make(text, micro=False).svg_inline(scale=QR_SCALE, dark="#000", light="#fff"))
