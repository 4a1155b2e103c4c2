"""The panel of what a relayer's transactions paid for gas per day, from their receipts."""

from datetime import UTC
from typing import Any

from django.http import HttpRequest

from chain.networks import networks
from chain.units import coins
from relayer_service.amounts import decimal_text
from relayer_service.console.overview.charts import GREY, RANGES, Period, bars
from relayer_service.console.panels import Panel
from relayer_service.extensions import is_enabled
from relayers.models import Relayer
from transactions.console.exports import paid
from transactions.models import Transaction

COLOUR = "var(--color-orange-400)"
AXIS = {"beginAtZero": True, "ticks": {"color": GREY}}
# Rows that are summed, so that the page of a busy relayer costs the same as any other.
MAX_SUMMED = 10_000


class RelayerGas(Panel):
    template = "admin/transactions/relayer_gas.html"

    def may_view(self, request: HttpRequest) -> bool:
        return is_enabled("transactions") and bool(request.user.has_perm("transactions.view_transaction"))

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        return {"gas_panel": chart(relayer)}


def chart(relayer: Relayer) -> dict[str, Any]:
    """Return the chart of the last 30 days with their total; {} if nothing was paid."""
    period, network = Period(RANGES["30d"]), networks().get(relayer.network)
    newest = Transaction.objects.filter(relayer=relayer).order_by("-sequence")
    rows = list(newest.values_list("finished_at", "gas_used", "effective_gas_price_text")[:MAX_SUMMED])
    days = [0] * period.count
    for finished_at, gas_used, price in rows:
        fee = paid(gas_used, price)
        if fee is not None and finished_at and finished_at >= period.start:
            days[period.position(finished_at.astimezone(UTC))] += fee
    if not any(days):
        return {}
    decimals, unit = (network.decimals, network.symbol) if network else (0, "wei")
    # As text, which the chart parses: no number is rounded here.
    amounts = [decimal_text(amount, decimals) for amount in days]
    return {
        "chart": period.chart([bars(f"Gas ({unit})", amounts, COLOUR)], y=AXIS),
        "total": coins(sum(days), network),
        "is_partial": len(rows) == MAX_SUMMED,
        "summed": f"{MAX_SUMMED:,}",
    }
