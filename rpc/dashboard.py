"""What the admin tells of JSON-RPC and fee tokens at a glance: prices, states, and the overview's card."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from django.db.models import Max, Q, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html

from relayer_service.admin.dashboard import Card, ago, label
from relayers import dashboard as relayers_dashboard
from relayers.chain.networks import networks
from relayers.dashboard import ADDRESS, ADDRESS_END
from rpc.filters import OK, with_state
from rpc.models import CallCount, FeeToken

VARIANTS = {OK: "success", "stale": "warning", "failed": "danger", "not read yet": "default", "off": "info"}
WITHOUT_PRICE = ["stale", "failed", "not read yet"]
# Of a rate in a list; the whole of it is on the token's page.
DIGITS_SHOWN = 8


def may_view(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("rpc.view_feetoken"))


def json_rpc(request: HttpRequest) -> Card | None:
    """Make the overview's card of the calls of the last hour, and of fee tokens that have no price."""
    rows, url = [], ""
    if relayers_dashboard.may_view(request):
        rows, url = _call_rows(), reverse("admin:relayers_relayer_changelist")
    if may_view(request):
        tokens = with_state(FeeToken.objects.order_by()).filter(state__in=WITHOUT_PRICE)
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


def alarm(count: int) -> str:
    return label(f"{count:,}", "danger") if count else "0"


def badge(state: str) -> str:
    return label(state, VARIANTS[state])


def address(token: FeeToken) -> str:
    """Show a token's address with a button that copies it."""
    return format_html(ADDRESS, token.pk, token.address[:-ADDRESS_END], token.address[-ADDRESS_END:])


def price(token: FeeToken) -> str:
    """Say a token's last price in few digits, with its age; the whole of it is the text's title."""
    if not token.rate_text:
        return "unknown"
    exact, shown = (per_coin(token, rate) for rate in (token.rate_text, short(token)))
    return format_html('<div title="{}">{}</div><div class="price-age">{}</div>', exact, shown, price_age(token))


def short(token: FeeToken) -> str:
    """Write a rate with no more digits than can be taken in at once, marked where some are left out."""
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
    """Say how old a token's last price is: as old as the oldest that it was made of."""
    moments = [detail["updated_at"] for detail in token.rate_details]
    return ago(moment(min(moments))) if moments else "of unknown age"


def moment(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


def price_facts(token: Any) -> dict[str, Any]:
    """Give what the template `admin/rpc/price.html` shows of a token: the last price, and what each source said."""
    facts = {
        "State": badge(token.state),
        "Price": per_coin(token, token.rate_text) if token.rate_text else "unknown",
        "Decimals": "not read yet" if token.decimals is None else str(token.decimals),
        "Last read": ago(token.rated_at),
    }
    rows = [
        [detail["name"], per_coin(token, detail["rate"]), ago(moment(detail["updated_at"]))]
        for detail in token.rate_details
    ]
    return {"facts": facts, "fault": token.rate_error, "table": {"headers": ["Source", "Price", "Age"], "rows": rows}}
