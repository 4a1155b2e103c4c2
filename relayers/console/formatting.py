"""States, balances and addresses of relayers, as the admin shows them."""

from collections.abc import Collection
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import model_ngettext
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join

from chain.networks import Network, networks
from chain.units import coins, rounded_coins
from relayer_service.console.dates import ago
from relayer_service.console.overview.dashboard import label
from relayers.guards import MissingFunds, get_guard
from relayers.health.probes import missing_address_reason
from relayers.health.runway import current_runway
from relayers.models import ACTIVE, Relayer

VARIANTS = {
    ACTIVE: "success",
    "disabled": "danger",
    "paused": "info",
    "low balance": "warning",
    "no address": "warning",
    "nodes failing": "warning",
    "unknown": "default",
}
ADDRESS_END = 6
# In two parts, so that a narrow list can shorten the first and still show both ends.
ADDRESS = """
    <span class="copied-address">
        <code id="address-{0}" title="{1}{2}"><span>{1}</span><span>{2}</span></code>
        <button type="button" data-copy="#address-{0}" aria-label="Copy the address">
            <span data-copy-label aria-live="polite">Copy</span>
        </button>
    </span>
"""


def report(model_admin: Any, request: HttpRequest, done: str, count: int, skipped: int, reason: str) -> None:
    """Show staff how many rows an action has changed, and how many it has skipped for a reason."""
    text = f"{done}: {count:,} {model_ngettext(model_admin.opts, count)}."
    if skipped:
        text += f" Skipped: {skipped:,} ({reason})."
    model_admin.message_user(request, text, messages.SUCCESS if count else messages.WARNING)


def note_missing_funds(relayers: Collection[Relayer]) -> None:
    """Set which of these relayers wait for funds, for `badges`."""
    missing = get_guard().missing_funds([relayer.pk for relayer in relayers])
    for relayer in relayers:
        relayer.missing_funds = missing.get(relayer.pk)  # type: ignore[attr-defined]


def badges(relayer: Any) -> str:
    missing = getattr(relayer, "missing_funds", None)
    shown = [label(state, VARIANTS[state]) for state in relayer.states if not missing or state != ACTIVE]
    if missing:
        shown.append(waiting_for_funds(missing, networks().get(relayer.network)))
    elif relayer.health.balance == 0 and not relayer.health.balance_is_low:
        shown.append(label("no coins", "warning"))
    return format_html_join(" ", "{}", ([each] for each in shown))


def waiting_for_funds(missing: MissingFunds, network: Network | None) -> str:
    """Return a badge, and how much is missing below it."""
    badge = label("waiting for funds", "warning")
    text = missing_text(missing, network)
    return format_html('{} <span class="block text-xs">{}</span>', badge, text) if text else badge


def missing_text(missing: MissingFunds, network: Network | None) -> str:
    """Return what is missing, rounded up, as a top-up of that must be enough; "" if it is unknown."""
    if missing.amount is None:
        return ""
    start = "at least " if missing.is_minimum else ""
    return format_html("{}{} missing", start, amount(missing.amount, network, up=True))


def address(row: Any) -> str:
    """Return the address of a relayer or a token with a Copy button, or the reason why it is unknown."""
    if row.address:
        return format_html(ADDRESS, row.pk, row.address[:-ADDRESS_END], row.address[-ADDRESS_END:])
    if not isinstance(row, Relayer):
        return "unknown"
    return format_html('<span class="no-address" title="{}">unknown</span>', missing_address_reason(row.signer))


def balance(relayer: Relayer) -> str:
    found = relayer.health.balance
    return "unknown" if found is None else amount(found, networks().get(relayer.network))


def aged_balance(relayer: Relayer, text: str = "{}, {}") -> str:
    """Return the balance, and when it was read if a later check could not read it."""
    health = relayer.health
    if health.balance_at is None or health.balance_at == health.checked_at:
        return balance(relayer)
    return format_html(text, balance(relayer), f"read {ago(health.balance_at)}")


def listed_balance(relayer: Relayer) -> str:
    return aged_balance(relayer, '{}<span class="block text-xs">{}</span>')


def runway(relayer: Relayer) -> str:
    found = current_runway(relayer)
    return found.text if found else "-"


def amount(value: int, network: Network | None, *, up: bool = False) -> str:
    """Return an amount rounded, with the exact one as the tooltip."""
    shown = rounded_coins(value, network, up=up)
    return format_html('<span class="amount" title="{}">{}</span>', coins(value, network), shown)


def balance_and_limit(relayer: Relayer) -> str:
    minimum = relayer.policies.get("min_balance")
    if minimum is None:
        return balance(relayer)
    limit = amount(minimum, networks().get(relayer.network))
    words = "below the minimum of" if relayer.health.balance_is_low else "minimum"
    return format_html("{}, {} {}", balance(relayer), words, limit)
