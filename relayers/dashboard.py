"""How the admin shows relayers at a glance: states, balances, addresses, and the overview's card."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html

from relayer_service.admin.dashboard import Card, label
from relayer_service.amounts import decimal_text
from relayers.chain.networks import networks
from relayers.models import ACTIVE, STATES, Relayer

VARIANTS = {ACTIVE: "success", "disabled": "danger", "paused": "info", "low balance": "warning", "unknown": "default"}
ADDRESS_END = 6
# States that need nobody's attention.
CALM = {ACTIVE, "paused"}
# In two parts, so that a narrow list can shorten the first and still show both ends.
ADDRESS = """
    <span class="copied-address">
        <code id="address-{0}" title="{1}{2}"><span>{1}</span><span>{2}</span></code>
        <button type="button" data-copy="#address-{0}" aria-label="Copy the address">
            <span data-copy-label aria-live="polite">Copy</span>
        </button>
    </span>
"""


def relayers(request: HttpRequest) -> Card | None:
    """Return the overview's card: how many relayers are in which state."""
    if not request.user.has_perm("relayers.view_relayer"):
        return None
    groups = Relayer.objects.order_by().with_state().values_list("state").annotate(Count("pk"))
    counts = dict.fromkeys(STATES, 0) | dict(groups)
    rows = [[state.capitalize(), _count(state, count)] for state, count in counts.items()]
    return Card("Relayers", rows, url=reverse("admin:relayers_relayer_changelist"))


def _count(state: str, count: int) -> str:
    return str(count) if state in CALM or not count else label(str(count), VARIANTS[state])


def badge(state: str) -> str:
    return label(state, VARIANTS[state])


def address(row: Any) -> str:
    """Return the address of a relayer or a token, with a button that copies it."""
    if not row.address:
        return "not known"
    return format_html(ADDRESS, row.pk, row.address[:-ADDRESS_END], row.address[-ADDRESS_END:])


def balance(relayer: Relayer) -> str:
    """Return a balance in whole coins of its network; in wei where the network is unknown."""
    if relayer.balance is None:
        return "unknown"
    network = networks().get(relayer.network)
    if network is None:
        return f"{relayer.balance} wei"
    return f"{decimal_text(relayer.balance, network.decimals)} {network.symbol}"
