"""The health check: reads nonce and balance of each relayer from the chain, and disables or enables it."""

from __future__ import annotations

import json
import logging
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction

from chain import nodes
from chain.answers import quantity
from chain.attempts import Call
from chain.errors import NodesUnreachable
from notifications.emitting import emit
from notifications.models import Notification
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import changed, record
from relayer_service.background.leased_work import LeasedWork
from relayer_service.storage.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers.account import address_mismatches
from relayers.balance_hours import with_reading
from relayers.events import (
    RELAYER_BALANCE_RECOVERED,
    RELAYER_DISABLED,
    RELAYER_ENABLED,
    RELAYER_LOW_BALANCE,
    DisabledReason,
    RelayerBalanceData,
    RelayerDisabledData,
)
from relayers.metrics import observe_checks
from relayers.models import Relayer
from relayers.states import event_data

logger = logging.getLogger(__name__)

# Relayers in one JSON-RPC batch, with two calls each: nodes limit how many calls they take.
RELAYERS_IN_BATCH = 25
WRITING_SECONDS = 60
# The next check comes a little earlier or later, so that checks spread over the interval by themselves.
JITTER = 0.1

# The limit of the column, and more than any account will have.
MAX_NONCE = 2**63 - 1

AccountReadings = tuple[Relayer, "AccountReading"]


@dataclass(frozen=True)
class AccountReading:
    """What was read of an account: None where it could not be read, and the reason."""

    nonce: int | None = None
    balance: int | None = None
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return self.nonce is not None and self.balance is not None


def lease_length() -> timedelta:
    """Return the length of a lease: longer than the slowest reading and its writing."""
    return timedelta(seconds=settings.NODE_DEADLINE_SECONDS + WRITING_SECONDS)


def batches(relayers: Iterable[Relayer]) -> list[list[Relayer]]:
    """Return the relayers in groups for one request each: those with the same nodes and chain."""
    groups: dict[str, list[Relayer]] = defaultdict(list)
    for relayer in relayers:
        try:
            key = json.dumps([relayer.expected_chain_id, relayer.node_urls()])
        except DecryptionError:
            key = f"unreadable {relayer.pk}"
        groups[key].append(relayer)
    return [
        group[start : start + RELAYERS_IN_BATCH]
        for group in groups.values()
        for start in range(0, len(group), RELAYERS_IN_BATCH)
    ]


def read(relayers: list[Relayer]) -> list[AccountReadings]:
    """Return what the chain says of relayers that have the same nodes."""
    asked = [relayer for relayer in relayers if relayer.address]
    try:
        found = _ask(asked) if asked else []
    except NodesUnreachable as error:
        found = [AccountReading(reason=error.reasons) for _ in asked]
    except DecryptionError:
        found = [AccountReading(reason="its RPC URLs cannot be opened") for _ in asked]
    unknown = [(relayer, AccountReading()) for relayer in relayers if not relayer.address]
    return [*zip(asked, found, strict=True), *unknown]


def _ask(relayers: list[Relayer]) -> list[AccountReading]:
    calls = [
        call
        for relayer in relayers
        for call in (
            Call("eth_getTransactionCount", [relayer.address, "pending"]),
            Call("eth_getBalance", [relayer.address, "latest"]),
        )
    ]
    readings = [AccountReading(reason="a node answered, but not with a nonce") for _ in relayers]
    for answers in nodes.answers(relayers[0].node_urls(), calls, relayers[0].expected_chain_id):
        for number, reading in enumerate(readings):
            nonce, balance = (quantity(answer) for answer in answers[2 * number : 2 * number + 2])
            if nonce is not None and nonce <= MAX_NONCE and not reading.is_complete:
                readings[number] = AccountReading(nonce, reading.balance if balance is None else balance)
        if all(reading.is_complete for reading in readings):
            break
        # A node that answers, but not with what was asked for: the next one is asked too.
    return readings


def write(readings: list[AccountReadings]) -> None:
    """Write readings to their relayers, and emit the events, in one transaction."""
    with transaction.atomic(), acting_as(ActorKind.HEALTH_CHECK, "health check"):
        _write(readings)
    observe_checks(len(readings))


def _write(readings: list[AccountReadings]) -> None:
    # Locked at once and in the order that all use: two orders would deadlock.
    rows = Relayer.objects.filter(pk__in=[relayer.pk for relayer, _ in readings]).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk"))
    now = database_now()
    due_at = now + timedelta(seconds=settings.HEALTH_CHECK_SECONDS * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311
    mismatches = address_mismatches([relayer for relayer, _ in readings])
    unchanged: dict[bool, list[Relayer]] = {True: [], False: []}
    entries = []
    for relayer, reading in readings:
        changes = judge(relayer, reading, mismatches.get(relayer.pk, ""))
        differing = {name: value for name, value in changes.items() if getattr(relayer, name) != value}
        has_balance = reading.balance is not None
        if not differing:
            unchanged[has_balance].append(relayer)
        elif relayer.release(due_at, **times(has_balance, now), **differing, **balance_history(relayer, reading, now)):
            announce(relayer, changes)
            entries.append(audit_entry(relayer, changes))
    record(entries)
    # Most checks find what the last one found: one statement for all of them.
    for has_balance, relayers in unchanged.items():
        if relayers:
            Relayer.objects.held(relayers).update(due_at=due_at, lease=None, **times(has_balance, now))


def times(has_balance: bool, now: datetime) -> dict[str, datetime]:
    """Return the columns with the times of a check: a balance that could not be read keeps its own."""
    return {"checked_at": now, "balance_at": now} if has_balance else {"checked_at": now}


def judge(relayer: Relayer, reading: AccountReading, mismatch: str = "") -> dict[str, Any]:
    """Return the columns that a reading sets; the settings say how many checks in a row disable or enable.

    `mismatch` says that the address is not the signer's: that disables it at once, whatever was read.
    """
    if not relayer.address:
        return {}
    changes: dict[str, Any] = {"balance_is_low": is_low(relayer, reading.balance)}
    if reading.balance is not None:
        changes["balance_text"] = str(reading.balance)
    if mismatch:
        return changes | disabled(mismatch) | {"good_checks": 0}
    if reading.nonce is None:
        failed = min(relayer.failed_checks + 1, settings.HEALTH_FAILURES_TO_DISABLE)
        changes |= {"failed_checks": failed, "good_checks": 0}
        if relayer.system_disabled or failed >= settings.HEALTH_FAILURES_TO_DISABLE:
            changes |= disabled(f"The nonce could not be read from any node: {reading.reason}.")
        return changes
    good = min(relayer.good_checks + 1, settings.HEALTH_SUCCESSES_TO_ENABLE)
    changes |= {"nonce": reading.nonce, "failed_checks": 0, "good_checks": good}
    if relayer.system_disabled and good >= settings.HEALTH_SUCCESSES_TO_ENABLE:
        changes |= {"system_disabled": False, "disabled_reason_type": "", "disabled_reason_details": ""}
    return changes


def disabled(details: str) -> dict[str, Any]:
    """Return the columns of a relayer that is disabled."""
    return {
        "system_disabled": True,
        "disabled_reason_type": Relayer.DisabledReason.NONCE_SYNC_FAILED.value,
        "disabled_reason_details": details,
    }


def balance_history(relayer: Relayer, reading: AccountReading, now: datetime) -> dict[str, Any]:
    """Return the column with the balance by hour, if a reading changes it."""
    if reading.balance is None or str(reading.balance) == relayer.balance_text:
        return {}
    return {"balance_hours": with_reading(relayer.balance_hours, str(reading.balance), now)}


def audit_entry(relayer: Relayer, changes: dict[str, Any]) -> AuditEntry | None:
    """Return what the audit log holds of a check: a state that begins or ends, not what was read."""
    states = {name: changes.get(name, getattr(relayer, name)) for name in ("system_disabled", "balance_is_low")}
    reason = changes["disabled_reason_details"] if states["system_disabled"] and not relayer.system_disabled else ""
    return changed(relayer, {name: getattr(relayer, name) for name in states}, states, reason)


def is_low(relayer: Relayer, balance: int | None) -> bool:
    """Return whether a balance is below the minimum; one that could not be read is as low as it was before."""
    if balance is None:
        return relayer.balance_is_low
    minimum = relayer.policies.get("min_balance")
    return minimum is not None and balance < minimum


def announce(relayer: Relayer, changes: dict[str, Any]) -> None:
    """Log and emit what a check changes; the relayer is still as it was before."""
    is_low = changes["balance_is_low"]
    is_disabled = changes.get("system_disabled", relayer.system_disabled)
    if (is_low, is_disabled) == (relayer.balance_is_low, relayer.system_disabled):
        return
    # Read now, as staff may have chosen another since.
    notification = Notification.objects.filter(relayers=relayer).first()
    if is_low != relayer.balance_is_low:
        _announce_balance(relayer, changes, notification)
    if is_disabled == relayer.system_disabled:
        return
    fields = {"relayer": relayer.identifier, "network": relayer.network}
    if is_disabled:
        details = changes["disabled_reason_details"]
        logger.error("The relayer %s is disabled: %s", relayer, details, extra={"fields": fields})
        reason = DisabledReason(type=changes["disabled_reason_type"], details=details)
        data = RelayerDisabledData(**event_data(relayer), disabled_reason=reason)
        if notification:
            emit(RELAYER_DISABLED, notification, data)
    else:
        logger.info("The relayer %s is enabled again", relayer, extra={"fields": fields})
        if notification:
            emit(RELAYER_ENABLED, notification, event_data(relayer))


def _announce_balance(relayer: Relayer, changes: dict[str, Any], notification: Notification | None) -> None:
    fields = {"relayer": relayer.identifier, "network": relayer.network}
    if changes["balance_is_low"]:
        logger.warning("The balance of the relayer %s is low", relayer, extra={"fields": fields})
    else:
        logger.info("The balance of the relayer %s is no longer low", relayer, extra={"fields": fields})
    if notification:
        minimum = relayer.policies.get("min_balance", 0)
        data = RelayerBalanceData(**event_data(relayer), balance=changes["balance_text"], min_balance=str(minimum))
        emit(RELAYER_LOW_BALANCE if changes["balance_is_low"] else RELAYER_BALANCE_RECOVERED, notification, data)


checks = LeasedWork(
    pool_name="health",
    threads=lambda: settings.NODE_THREADS,
    rows=Relayer.objects.all,
    lease_length=lease_length,
    # A network, and the hosts of custom nodes, whatever follows in their URLs.
    queue_columns=["network", "masked_rpc_urls"],
    batches=batches,
    run=read,
    write=write,
)
check_due = checks.run_due
