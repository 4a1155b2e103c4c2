"""Automatic top-ups in the admin: on the pages of relayers and transactions."""

from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from chain.networks import networks
from chain.units import coins
from relayer_service.console.dates import ago_titled, exact
from relayer_service.console.overview.dashboard import label
from relayer_service.console.references import MAX_SHOWN, and_more, link
from relayer_service.database.clock import database_now
from relayers.console.formatting import amount
from relayers.models import Relayer
from transactions.console import formatting
from transactions.console.permissions import TransactionsPanel
from transactions.models import TopUp, Transaction

VARIANTS: dict[str, str] = {
    TopUp.State.BLOCKED: "danger",
    TopUp.State.OPEN: "info",
    TopUp.State.SUCCEEDED: "success",
    TopUp.State.FAILED: "danger",
}
# Of a relayer that funds others.
FUNDED_COLUMNS = ["identifier", "name", "funding_relayer"]


class RelayerFunding(TransactionsPanel):
    """On a relayer's page: who funds it, its last top-up and when the next one is possible, and whom it funds."""

    template = "admin/transactions/relayer_funding.html"

    def context(self, request: HttpRequest, relayer: Relayer) -> dict[str, Any]:
        last = TopUp.objects.filter(relayer=relayer).select_related("transaction").order_by("-pk").first()
        facts = {**_funding(relayer), **_last(relayer, last), **_funded(relayer)}
        reason = last.reason if last is not None and last.due_at is not None else ""
        reason = formatting.readable(reason, networks().get(relayer.network))
        return {"relayer_funding": {"facts": facts, "reason": reason}}


def _funding(relayer: Relayer) -> dict[str, str]:
    amounts, network = relayer.top_up, networks().get(relayer.network)
    if amounts is None or relayer.funding_relayer is None:
        return {}
    minimum, target, limit = (coins(each, network) for each in amounts)
    rule = f"below {minimum}, up to {target}; at most {limit} in 24 hours"
    return {"Funded by": format_html("{}: {}", link(relayer.funding_relayer), rule)}


def _last(relayer: Relayer, last: TopUp | None) -> dict[str, str]:
    if last is None:
        return {"Last top-up": "none yet"} if relayer.funding_relayer_id else {}
    shown = amount(last.amount, networks().get(relayer.network))
    badge = label(str(last.get_state_display()).lower(), VARIANTS[last.state])
    text = format_html("{} {}, {}", badge, shown, ago_titled(last.created_at))
    if last.transaction:
        text = format_html("{}: {}", text, link(last.transaction))
    allowed = "when the balance is too low"
    if last.state == TopUp.State.OPEN:
        allowed = "when this one is final, and the balance was read after it"
    elif last.due_at is not None and last.due_at > database_now():
        allowed = exact(last.due_at)
    return {"Last top-up": text, "Next top-up": allowed}


def _funded(relayer: Relayer) -> dict[str, str]:
    rows = Relayer.objects.filter(funding_relayer=relayer).order_by("pk").only(*FUNDED_COLUMNS)
    found = [link(row) for row in rows[: MAX_SHOWN + 1]]
    if not found:
        return {}
    more = f" {and_more(rows.count() - MAX_SHOWN)}" if len(found) > MAX_SHOWN else ""
    return {"Funds": format_html("{}{}", format_html_join(", ", "{}", ([each] for each in found[:MAX_SHOWN])), more)}


def purpose(row: Transaction) -> dict[str, str | SafeString]:
    """Return what a transaction is for, if it is a top-up, with what caused it."""
    top_up = TopUp.objects.filter(transaction=row).select_related("relayer").first()
    if top_up is None:
        return {}
    balance = amount(int(top_up.balance_text), networks().get(top_up.relayer.network))
    text = "{}: its balance was {} at block {}"
    return {"Top-up of": format_html(text, link(top_up.relayer), balance, f"{top_up.block:,}")}
