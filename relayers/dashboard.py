"""What the admin tells of relayers at a glance: states, balances, addresses, and the overview's card."""

from __future__ import annotations

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from relayer_service.admin.dashboard import Card, label
from relayers.chain.networks import networks
from relayers.filters import ACTIVE, STATES, with_state
from relayers.models import Relayer

VARIANTS = {ACTIVE: "success", "disabled": "danger", "paused": "info", "low balance": "warning", "unknown": "default"}
ADDRESS_END = 6
# What is no reason for a closer look.
CALM = {ACTIVE, "paused"}
# In two parts, so that a list with little room can shorten the first and both ends are seen.
ADDRESS = """
    <span class="copied-address">
        <code id="address-{0}" title="{1}{2}"><span>{1}</span><span>{2}</span></code>
        <button type="button" data-copy="#address-{0}" aria-label="Copy the address">
            <span data-copy-label aria-live="polite">Copy</span>
        </button>
    </span>
"""


def may_view(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("relayers.view_relayer"))


def relayers(request: HttpRequest) -> Card | None:
    """Make the overview's card of how many relayers are in which state."""
    if not may_view(request):
        return None
    groups = with_state(Relayer.objects.order_by()).values("state").annotate(rows=Count("pk"))
    counts = {group["state"]: group["rows"] for group in groups}
    rows = [[state.capitalize(), _count(state, counts.get(state, 0))] for state in STATES]
    return Card("Relayers", rows, url=reverse("admin:relayers_relayer_changelist"))


def _count(state: str, count: int) -> str:
    return str(count) if state in CALM or not count else label(str(count), VARIANTS[state])


def badge(state: str) -> str:
    return label(state, VARIANTS[state])


def address(relayer: Relayer) -> str:
    """Show an address with a button that copies it."""
    if not relayer.address:
        return "not known"
    return format_html(ADDRESS, relayer.pk, relayer.address[:-ADDRESS_END], relayer.address[-ADDRESS_END:])


def balance(relayer: Relayer) -> str:
    """Say a balance in whole coins of its network; where those are not known, in wei."""
    if relayer.balance is None:
        return "unknown"
    network = networks().get(relayer.network)
    if network is None:
        return f"{relayer.balance} wei"
    return f"{whole_coins(relayer.balance, network.decimals)} {network.symbol}"


def whole_coins(amount: int, decimals: int) -> str:
    """Write an amount of the smallest unit in whole coins, exactly."""
    whole, part = divmod(amount, 10**decimals)
    return f"{whole}.{part:0{decimals}}".rstrip("0").rstrip(".") if part else str(whole)
