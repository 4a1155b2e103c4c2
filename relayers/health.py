"""The health check: reads the nonce and balance of each relayer from its nodes, and disables or enables it."""

import json
import logging
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
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
from relayer_service.audit import actors
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import changed, record
from relayer_service.background import pools
from relayer_service.background.leased_work import LeasedWork
from relayer_service.storage.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers import events, guards
from relayers.account import address_mismatches
from relayers.histories import announce_runway, histories
from relayers.metrics import observe_checks
from relayers.models import Relayer
from relayers.states import event_data

logger = logging.getLogger(__name__)

# Consecutive checks that disable or enable a relayer: a single failure may be a hiccup of the nodes.
FAILURES_TO_DISABLE = 2
SUCCESSES_TO_ENABLE = 1
# Relayers in a JSON-RPC batch, with two calls each: nodes limit the calls in a batch.
RELAYERS_IN_BATCH = 25
WRITING_SECONDS = 60
# The next check comes a little earlier or later, which spreads checks over the interval.
JITTER = 0.1
# The limit of the column, and more than any account will have.
MAX_NONCE = 2**63 - 1

AccountReadings = tuple[Relayer, "AccountReading"]


@dataclass(frozen=True)
class AccountReading:
    """The nonce and balance of an account; None if they could not be read, with the reason."""

    nonce: int | None = None
    balance: int | None = None
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return self.nonce is not None and self.balance is not None


def lease_length() -> timedelta:
    """Return a time that is longer than the slowest reading and its writing."""
    return timedelta(seconds=settings.NODE_DEADLINE_SECONDS + WRITING_SECONDS)


def batches(relayers: Iterable[Relayer]) -> list[list[Relayer]]:
    """Return groups of relayers with the same nodes and chain, for one request each."""
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
    """Return the readings of relayers that have the same nodes."""
    known = [relayer for relayer in relayers if relayer.address]
    try:
        found = _read(known) if known else []
    except NodesUnreachable as error:
        found = [AccountReading(reason=error.reasons) for _ in known]
    except DecryptionError:
        found = [AccountReading(reason="its RPC URLs cannot be decrypted") for _ in known]
    unknown = [(relayer, AccountReading()) for relayer in relayers if not relayer.address]
    return [*zip(known, found, strict=True), *unknown]


def _read(relayers: list[Relayer]) -> list[AccountReading]:
    calls = [
        call
        for relayer in relayers
        for call in (
            Call("eth_getTransactionCount", [relayer.address, "pending"]),
            Call("eth_getBalance", [relayer.address, "latest"]),
        )
    ]
    readings = [AccountReading(reason="no node returned a nonce") for _ in relayers]
    for answers in nodes.answers(relayers[0].node_urls(), calls, relayers[0].expected_chain_id):
        for number, reading in enumerate(readings):
            nonce, balance = (quantity(answer) for answer in answers[2 * number : 2 * number + 2])
            if nonce is not None and nonce <= MAX_NONCE and not reading.is_complete:
                readings[number] = AccountReading(nonce, reading.balance if balance is None else balance)
        # Otherwise the node did not return every value, and the next one is called.
        if all(reading.is_complete for reading in readings):
            break
    return readings


def write(readings: list[AccountReadings]) -> None:
    """Write readings to their relayers and emit the events, in one transaction."""
    with transaction.atomic(), acting_as(ActorKind.HEALTH_CHECK, "health check"):
        # Locked in one statement and in the same order everywhere: different orders could deadlock.
        rows = Relayer.objects.filter(pk__in=[relayer.pk for relayer, _ in readings]).order_by("pk")
        list(rows.select_for_update(no_key=True).values_list("pk"))
        _write(readings, address_mismatches([relayer for relayer, _ in readings]), database_now())
    observe_checks(len(readings))


def _write(readings: list[AccountReadings], mismatches: Mapping[int, str], now: datetime) -> None:
    due_at = now + timedelta(seconds=settings.HEALTH_CHECK_SECONDS * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311
    write_node_keys([relayer for relayer, _ in readings])
    unchanged: dict[bool, list[Relayer]] = {True: [], False: []}
    entries, switched = [], []
    for relayer, reading in readings:
        changes = judge(relayer, reading, mismatches.get(relayer.pk, ""))
        changes |= starts(relayer, changes, now) if changes else {}
        if "balance_text" in changes:
            changes |= histories(relayer, int(changes["balance_text"]), now)
        differing = {name: value for name, value in changes.items() if getattr(relayer, name) != value}
        if not differing:
            unchanged[reading.balance is not None].append(relayer)
            continue
        if relayer.release(due_at, **times(reading.balance is not None, now), **differing):
            announce(relayer, changes)
            if changes.get("runway_is_short") and not relayer.runway_is_short:
                announce_runway(relayer, changes, now)
            entries.append(audit_entry(relayer, changes))
            switched += [relayer.pk] if "system_disabled" in differing else []
    record(entries)
    guards.note_change(switched, {"system_disabled"})
    # Most checks find no change: one statement for all of them.
    for has_balance, relayers in unchanged.items():
        if relayers:
            Relayer.objects.held(relayers).update(due_at=due_at, lease=None, **times(has_balance, now))


def write_node_keys(relayers: Iterable[Relayer]) -> None:
    """Write the keys of own nodes where they differ: in rows of earlier releases, or after a change of the secret."""
    differing: dict[str, list[Relayer]] = defaultdict(list)
    for relayer in relayers:
        keys = relayer.own_node_keys()
        if keys != relayer.node_keys:
            differing[keys].append(relayer)
    for keys, found in differing.items():
        Relayer.objects.held(found).update(node_keys=keys)


def times(has_balance: bool, now: datetime) -> dict[str, datetime]:
    return {"checked_at": now, "balance_at": now} if has_balance else {"checked_at": now}


def judge(relayer: Relayer, reading: AccountReading, mismatch: str = "") -> dict[str, Any]:
    """Return the columns that a reading sets; with a `mismatch` of the address the relayer is disabled immediately."""
    if not relayer.address:
        return {}
    changes: dict[str, Any] = {"balance_is_low": relayer.balance_is_low}
    if reading.balance is not None:
        is_low = reading.balance < relayer.policies.get("min_balance", 0)
        changes |= {"balance_text": str(reading.balance), "balance_is_low": is_low}
    if mismatch:
        return changes | disabled(mismatch) | {"failed_checks": 0, "good_checks": 0}
    if reading.nonce is None:
        failed = min(relayer.failed_checks + 1, FAILURES_TO_DISABLE)
        changes |= {"failed_checks": failed, "good_checks": 0}
        if relayer.system_disabled or failed >= FAILURES_TO_DISABLE:
            changes |= disabled(f"The nonce could not be read from any node: {reading.reason}.")
        return changes
    good = min(relayer.good_checks + 1, SUCCESSES_TO_ENABLE)
    changes |= {"nonce": reading.nonce, "failed_checks": 0, "good_checks": good}
    if relayer.system_disabled and good >= SUCCESSES_TO_ENABLE:
        changes |= {"system_disabled": False, "disabled_reason_type": "", "disabled_reason_details": ""}
    return changes


def starts(relayer: Relayer, changes: Mapping[str, Any], now: datetime) -> dict[str, datetime | None]:
    """Return since when the problems of a relayer have lasted, after these changes."""
    is_disabled = changes.get("system_disabled", relayer.system_disabled)
    is_failing = is_disabled or changes.get("failed_checks", relayer.failed_checks) > 0
    return {
        "failing_since": (relayer.failing_since or now) if is_failing else None,
        "low_since": (relayer.low_since or now) if changes["balance_is_low"] else None,
    }


def disabled(details: str) -> dict[str, Any]:
    return {
        "system_disabled": True,
        "disabled_reason_type": Relayer.DisabledReason.NONCE_SYNC_FAILED.value,
        "disabled_reason_details": details,
    }


def audit_entry(relayer: Relayer, changes: dict[str, Any]) -> AuditEntry | None:
    """Return the audit entry of the states that begin or end; readings are not recorded."""
    states = {name: changes.get(name, getattr(relayer, name)) for name in ("system_disabled", "balance_is_low")}
    reason = changes["disabled_reason_details"] if states["system_disabled"] and not relayer.system_disabled else ""
    return changed(relayer, {name: getattr(relayer, name) for name in states}, states, reason)


def announce(relayer: Relayer, changes: dict[str, Any]) -> None:
    """Log and emit the states that begin or end; the instance still has the old ones."""
    is_low = changes["balance_is_low"]
    is_disabled = changes.get("system_disabled", relayer.system_disabled)
    if (is_low, is_disabled) == (relayer.balance_is_low, relayer.system_disabled):
        return
    # Read now, as staff may have chosen another one since.
    notification = Notification.objects.filter(relayers=relayer).first()
    data, extra = event_data(relayer), {"fields": {"relayer": relayer.identifier, "network": relayer.network}}
    if is_low != relayer.balance_is_low:
        if is_low:
            logger.warning("The balance of relayer %s is low", relayer, extra=extra)
        else:
            logger.info("The balance of relayer %s is no longer low", relayer, extra=extra)
        event = events.RELAYER_LOW_BALANCE if is_low else events.RELAYER_BALANCE_RECOVERED
        balance, minimum = changes["balance_text"], str(relayer.policies.get("min_balance", 0))
        emit(event, notification, events.RelayerBalanceData(**data, balance=balance, min_balance=minimum))
    if is_disabled and not relayer.system_disabled:
        details = changes["disabled_reason_details"]
        logger.error("Relayer %s is disabled: %s", relayer, details, extra=extra)
        reason = events.DisabledReason(type=changes["disabled_reason_type"], details=details)
        change = events.RelayerChangeData(**data, actor=str(actors.current()), reason=details)
        emit(events.RELAYER_DISABLED, notification, events.RelayerDisabledData(**change, disabled_reason=reason))
    elif relayer.system_disabled and not is_disabled:
        logger.info("Relayer %s is enabled again", relayer, extra=extra)
        change = events.RelayerChangeData(**data, actor=str(actors.current()), reason="The nonce was read again.")
        emit(events.RELAYER_ENABLED, notification, change)


checks = LeasedWork(
    pool_name="health",
    threads=lambda: pools.NODE_THREADS,
    rows=Relayer.objects.all,
    lease_length=lease_length,
    # The network, and the hosts of custom nodes.
    queue_columns=["network", "masked_rpc_urls"],
    batches=batches,
    run=read,
    write=write,
)
check_due = checks.run_due
