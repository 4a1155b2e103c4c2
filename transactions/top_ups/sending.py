"""Writing top-ups: each with its transaction, in one database transaction that locks both relayers."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q
from rest_framework.exceptions import APIException

from chain.networks import networks
from relayer_service.api.exceptions import flatten
from relayer_service.database.clock import database_now
from relayers.health.probes import address_mismatches
from relayers.models import Relayer
from relayers.models.top_ups import TopUpAmounts, funding_fault
from relayers.tasks import check_soon
from transactions import metrics
from transactions.lanes.prices.costs import in_flight_costs, settled_costs
from transactions.limits import refusals
from transactions.limits.holders import SpendingRefused
from transactions.models import IS_IN_FLIGHT, IS_PENDING, Lane, TopUp, Transaction
from transactions.records.crash_points import step
from transactions.records.requesters import TOP_UP
from transactions.requests.accepting import SendRequest, accept
from transactions.top_ups import decisions
from transactions.top_ups.decisions import BalanceReading
from transactions.top_ups.quoting import Quote

logger = logging.getLogger(__name__)

State = TopUp.State
# One that waits longer is decided again: the balance may have changed.
VALID_TIME = timedelta(hours=1)


class Decision(NamedTuple):
    """What was read for one relayer, outside of the transaction that decides."""

    relayer_pk: int
    reading: BalanceReading
    # Both are None if the balance is sufficient.
    funding_pk: int | None = None
    quote: Quote | None = None


class Shortage(NamedTuple):
    """A balance below the minimum, with both relayers locked."""

    relayer: Relayer
    funding: Relayer
    amounts: TopUpAmounts
    amount: int
    reading: BalanceReading


def decide(decision: Decision) -> None:
    """Close the last top-up if the reading shows its effect, and open the next one if the balance is still too low."""
    with transaction.atomic():
        opened = _decide(decision)
        if opened:
            step("top_up_written")
    if opened:
        step("top_up_committed")


def _decide(decision: Decision) -> bool:
    reading, now = decision.reading, database_now()
    relayers = _lock(decision)
    relayer = relayers.get(decision.relayer_pk)
    if relayer is None or relayer.address != reading.address or not reading.is_fresh:
        return False
    last = _last_sent(relayer)
    if not decisions.supersedes(reading, last):
        return False
    if last is not None and last.state == State.OPEN:
        _close(last, relayer, now)
    amounts = relayer.top_up
    amount = decisions.missing(amounts, reading.balance) if amounts is not None else 0
    if amounts is None or not amount or relayer.paused or relayer.health.system_disabled:
        # One that is paused or disabled sends nothing, and needs no coins.
        _resolve(relayer)
        return False
    if last is not None and last.due_at is not None and last.due_at > now:
        return False
    funding = relayers.get(relayer.funding_relayer_id or 0)
    if funding is None or decision.quote is None or decision.funding_pk != funding.pk:
        # Changed since it was read.
        return False
    shortage = Shortage(relayer, funding, amounts, amount, reading)
    row, reason, refused_by = None, _obstacle(shortage, decision.quote, now), ""
    if not reason:
        row, reason, refused_by = _accept(shortage, now)
    _write(shortage, row, last, now, reason=reason, refused_by=refused_by)
    return row is not None


def _lock(decision: Decision) -> dict[int, Relayer]:
    """Lock the relayer, so that its top-up is decided once, and its funding relayer, which may fund others."""
    keys = [decision.relayer_pk, *([decision.funding_pk] if decision.funding_pk else [])]
    rows = Relayer.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=keys).order_by("pk")
    return {row.pk: row for row in rows}


def _last_sent(relayer: Relayer) -> TopUp | None:
    """Return the newest top-up that was sent on the present chain of a relayer."""
    chain_id = relayer.expected_chain_id or 0
    sent = TopUp.objects.exclude(state=State.BLOCKED).filter(relayer=relayer, transaction__lane__chain_id=chain_id)
    return sent.select_related("transaction__lane").order_by("-pk").first()


def _close(top_up: TopUp, relayer: Relayer, now: datetime) -> None:
    row = top_up.transaction
    assert row is not None
    if reason := decisions.failure(row, relayer.address, top_up.amount, networks().get(relayer.network)):
        top_up.state, top_up.failures = State.FAILED, top_up.failures + 1
        top_up.due_at, top_up.reason = now + decisions.backoff(top_up.failures), reason
    else:
        top_up.state = State.SUCCEEDED
    top_up.save(update_fields=["state", "failures", "due_at", "reason"])
    # The stored balance is the one from before.
    check_soon([top_up.relayer_id])
    state, chain_id = top_up.state, row.lane.chain_id
    transaction.on_commit(lambda: metrics.count(metrics.TOP_UPS, chain_id, state), robust=True)


def _resolve(relayer: Relayer) -> None:
    """End what a relayer waits for that has enough, or is not topped up any more."""
    own = TopUp.objects.filter(relayer=relayer)
    own.filter(state=State.BLOCKED).delete()
    own.filter(state=State.FAILED, due_at__isnull=False).update(due_at=None)


def _obstacle(shortage: Shortage, quote: Quote, now: datetime) -> str:
    """Return why a top-up cannot be sent now, before its transaction is checked as any other; "" if it can."""
    relayer, funding, network = shortage.relayer, shortage.funding, networks().get(shortage.relayer.network)
    if fault := funding_fault(relayer):
        return f"The funding relayer {funding.identifier} cannot fund it: {fault}."
    if funding.address == relayer.address:
        return f"The funding relayer {funding.identifier} has the same account."
    if mismatches := address_mismatches([relayer]):
        # Nobody may have the key of its address.
        return mismatches[relayer.pk]
    day = TopUp.objects.filter(relayer=relayer, created_at__gt=now - decisions.DAY)
    # What one node alone reports to have failed may have been paid.
    in_doubt = Q(state=State.FAILED, transaction__last_attempt__isnull=False, transaction__corroborated_at=None)
    sent = day.filter(Q(state__in=[State.OPEN, State.SUCCEEDED]) | in_doubt).values_list("amount_text", flat=True)
    return (
        decisions.limit_fault(shortage.amounts, shortage.amount, [*map(int, sent)], network)
        or quote.fault
        or decisions.funds_fault(
            funding.identifier, quote.cost, quote.balance, reserved(funding, quote.count), funding.reserve, network
        )
    )


def reserved(funding: Relayer, count: int | None = None) -> int:
    """Return what the transactions of a relayer can cost that are not in its balance yet, read with this count."""
    lane = Lane.objects.filter(relayer=funding).first()
    rows = Transaction.objects.filter(lane=lane)
    costs = in_flight_costs(rows.filter(IS_IN_FLIGHT).select_related("last_attempt"))
    if lane is not None and count is not None:
        costs |= settled_costs(lane, count)
    queued = rows.filter(IS_PENDING).values_list("value_text", flat=True)
    return sum([*costs.values(), *map(int, queued)])


def _accept(shortage: Shortage, now: datetime) -> tuple[Transaction | None, str, str]:
    """Return the accepted transaction, or why and by which rule it is refused: as a client's request is checked."""
    relayer, funding = shortage.relayer, shortage.funding
    values: Mapping[str, Any] = {"to": relayer.address, "value": shortage.amount, "valid_until": now + VALID_TIME}
    request = SendRequest(funding.identifier, values, requested_by=TOP_UP + relayer.identifier)
    try:
        return accept(request, reports_refusals=False).row, "", ""
    except APIException as error:
        refused_by = ""
        if isinstance(error, SpendingRefused):
            refused_by = f"{funding.identifier} {error.verdict.rule}"
            # Amounts may differ.
            if not TopUp.objects.filter(relayer=relayer, state=State.BLOCKED, refused_by=refused_by).exists():
                refusals.report(error)
        texts = [f"{path}: {text}" if path else text for path, text in flatten(error.detail)]
        reason = f"The funding relayer {funding.identifier} refuses it: {'; '.join(texts).rstrip('.')}."
        return None, reason, refused_by


def _write(shortage: Shortage, row: Transaction | None, last: TopUp | None, now: datetime, **reasons: str) -> None:
    """Write an accepted top-up, or why it is blocked."""
    relayer = shortage.relayer
    values: dict[str, Any] = {
        "state": State.BLOCKED if row is None else State.OPEN,
        "transaction": row,
        "amount_text": str(shortage.amount),
        "balance_text": str(shortage.reading.balance),
        "block": shortage.reading.block,
        "failures": last.failures if last is not None and last.state == State.FAILED else 0,
        "due_at": now + timedelta(seconds=decisions.BLOCKED_SECONDS) if row is None else None,
        **reasons,
    }
    if row is not None:
        _resolve(relayer)
    elif TopUp.objects.filter(relayer=relayer, state=State.BLOCKED).update(**values):
        # It keeps the time since which it is blocked.
        return
    TopUp.objects.create(relayer=relayer, created_at=now, **values)
    extra = {"fields": {"relayer": relayer.identifier, "funding_relayer": shortage.funding.identifier}}
    if row is None:
        logger.warning("Relayer %s is not topped up: %s", relayer, reasons["reason"], extra=extra)
    else:
        logger.info("Relayer %s is topped up with %s wei", relayer, shortage.amount, extra=extra)
