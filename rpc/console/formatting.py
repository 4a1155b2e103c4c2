"""Prices, sources, states and symbols of fee tokens in the admin."""

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal

from django.utils.html import format_html, format_html_join

from chain.networks import networks
from relayer_service.console.dates import ago
from relayer_service.console.overview.dashboard import label
from rpc.models import FeeToken, PriceSource

VARIANTS = {"ok": "success", "stale": "warning", "failed": "danger", "not read yet": "default", "off": "info"}
# Digits of a rate in a list; the token's page shows the exact one.
DIGITS_SHOWN = 8


def badge(state: str) -> str:
    return label(state, VARIANTS[state])


def price(token: FeeToken) -> str:
    """Return a token's rounded last price with its age; the exact price is the tooltip."""
    if not token.rate_text:
        return "unknown"
    exact, shown = (per_coin(token, rate) for rate in (token.rate_text, short(token)))
    return format_html('<div title="{}">{}</div><div class="price-age">{}</div>', exact, shown, price_age(token))


def sources(token: FeeToken) -> str:
    return format_html_join("", "<div>{}</div>", ((source,) for source in token.sources.all())) or "none"


def sources_with_facts(token: FeeToken) -> str:
    lines = ((source, ", ".join(facts(source))) for source in token.sources.all())
    return format_html_join("", '<div class="break-all">{}: {}</div>', lines) or "none"


def facts(source: PriceSource) -> list[str]:
    titles = {column.name: column.verbose_name for column in PriceSource._meta.fields}
    values = ((titles[name], getattr(source, name)) for name in source.fields_of(source.kind))
    return [f"{title} {value}" for title, value in values if value not in {"", None}]


def short(token: FeeToken) -> str:
    """Return a rounded rate, marked with ≈ unless it is exact."""
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
    """Return the age of a token's last price: of the oldest price among its sources."""
    moments = [detail["updated_at"] for detail in token.rate_details]
    return ago(moment(min(moments))) if moments else "unknown age"


def moment(unix: int) -> datetime:
    return datetime.fromtimestamp(unix, UTC)


def find_symbols(keys: Collection[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], tuple[str, int]]]:
    """Yield network and address, and symbol and decimals, of the fee tokens among these whose decimals were read."""
    networks, addresses = zip(*keys, strict=True)
    tokens = FeeToken.objects.filter(network__in={*networks}, address__in={*addresses}, decimals__isnull=False)
    for network, address, symbol, decimals in tokens.values_list("network", "address", "symbol", "decimals"):
        yield (network, address), (symbol, decimals or 0)
