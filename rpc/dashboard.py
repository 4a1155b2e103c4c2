"""How the admin shows JSON-RPC and fee tokens at a glance: prices, states, and the overview's card."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal

from django.db.models import Max, Q, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from relayer_service.admin.dashboard import Card, ago, alarm, label
from relayers.chain.networks import networks
from rpc.models import CallCount, FeeToken

VARIANTS = {"ok": "success", "stale": "warning", "failed": "danger", "not read yet": "default", "off": "info"}
WITHOUT_PRICE = ["stale", "failed", "not read yet"]
# Of a rate in a list; the exact one is on the token's page.
DIGITS_SHOWN = 8


def json_rpc(request: HttpRequest) -> Card | None:
    """Return the overview's card of the calls of the last hour, and of fee tokens that have no price."""
    rows, url = [], ""
    if request.user.has_perm("relayers.view_relayer"):
        rows, url = _call_rows(), reverse("admin:relayers_relayer_changelist")
    if request.user.has_perm("rpc.view_feetoken"):
        tokens = FeeToken.objects.with_state().filter(state__in=WITHOUT_PRICE)
        rows.append(["Fee tokens without a price", alarm(tokens.count())])
        url = reverse("admin:rpc_feetoken_changelist")
    return Card("JSON-RPC", rows, url=url) if rows else None


def _call_rows() -> list[list[str]]:
    counts = CallCount.objects.filter(minute__gte=timezone.now() - timedelta(hours=1)).aggregate(
        made=Sum("calls"), failed=Sum("calls", filter=~Q(outcome="ok")), slowest=Max("slowest_milliseconds")
    )
    return [
        ["Calls of the last hour", f"{counts['made'] or 0:,}"],
        ["Failed", alarm(counts["failed"] or 0)],
        ["Slowest", "-" if counts["slowest"] is None else f"{counts['slowest']:,} ms"],
    ]


def badge(state: str) -> str:
    return label(state, VARIANTS[state])


def price(token: FeeToken) -> str:
    """Return a token's last price in few digits, with its age; the exact one is the text's title."""
    if not token.rate_text:
        return "unknown"
    exact, shown = (per_coin(token, rate) for rate in (token.rate_text, short(token)))
    return format_html('<div title="{}">{}</div><div class="price-age">{}</div>', exact, shown, price_age(token))


def short(token: FeeToken) -> str:
    """Return a rate with few digits, marked where some are left out."""
    exact = Decimal(token.rate_text)
    context = Context(prec=DIGITS_SHOWN, rounding=ROUND_HALF_EVEN, Emin=-10_000, Emax=10_000)
    shown = context.plus(exact)
    text = f"{shown:,f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text if shown == exact else f"≈ {text}"


def per_coin(token: FeeToken, rate: str) -> str:
    network = networks().get(token.network)
    return f"{rate} {token.symbol} for 1 {network.symbol if network else 'native coin'}"


def price_age(token: FeeToken) -> str:
    """Return how old a token's last price is: as old as the oldest of its sources' prices."""
    moments = [detail["updated_at"] for detail in token.rate_details]
    return ago(moment(min(moments))) if moments else "of unknown age"


def moment(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)
