"""The health check: reads the nonce and balance of each relayer from its nodes, and disables or enables it."""

import json
import logging
import random
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DatabaseError, transaction

from chain.errors import NodesUnreachable
from chain.nodes import attempts, failover
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from notifications.emitting import emit
from notifications.models import Notification
from relayer_service.audit import actors
from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.audit.models import AuditEntry
from relayer_service.audit.recording import changed, record
from relayer_service.background import pools
from relayer_service.database.clock import database_now
from relayer_service.storage.encryption import DecryptionError
from relayers import events, guards
from relayers.health import runway
from relayers.health.balance_hours import with_reading
from relayers.health.check_queues import CheckQueues
from relayers.health.probes import address_mismatches
from relayers.metrics import observe_checks
from relayers.models import Relayer, RelayerHealth
from relayers.pausing import event_data

logger = logging.getLogger(__name__)

# Consecutive checks that disable or enable a relayer: a single failure may be a hiccup of the nodes.
FAILURES_TO_DISABLE = 2
SUCCESSES_TO_ENABLE = 1
# Relayers in a JSON-RPC batch, with two calls each: nodes limit the calls in a batch.
RELAYERS_IN_BATCH = 25
WRITING_SECONDS = 60
# How often due relayers are claimed while others are being checked.
POLL_SECONDS = 1
# The next check comes a little earlier or later, which spreads checks over the interval.
JITTER = 0.1
# The limit of the column, and more than any account will have.
MAX_NONCE = 2**63 - 1

AccountReadings = tuple[RelayerHealth, "AccountReading"]

_is_checking = threading.Lock()


@dataclass(frozen=True)
class AccountReading:
    """The nonce and balance of an account; None if they could not be read, with the reason."""

    nonce: int | None = None
    balance: int | None = None
    reason: str = ""

    @property
    def is_complete(self) -> bool:
        return self.nonce is not None and self.balance is not None


class Finding(NamedTuple):
    """What a check found out: whether it read the balance, the columns that it sets, and those that differ."""

    health: RelayerHealth
    has_balance: bool
    changes: dict[str, Any]
    differing: dict[str, Any]


def check_due() -> int:
    """Check due relayers, unless another thread of this process does; return their number."""
    # One at a time, so that nodes that hang do not block all threads of a worker.
    if not _is_checking.acquire(blocking=False):
        return 0
    try:
        return _check_due()
    finally:
        _is_checking.release()


def _check_due() -> int:
    """Check due relayers until there are none. If a check or its write fails, it is due when its lease ends."""
    claimed = 0
    with pools.Pool("health", pools.NODE_THREADS) as pool:
        queues = CheckQueues(pool, pools.NODE_THREADS, _try_to_read)
        while True:
            # At most one row per free thread, as each row may be a batch.
            due = RelayerHealth.objects.select_related("relayer").exclude(queues.waiting())
            rows = due.claim(queues.free, lease_length())
            queues.add([relayer.health for relayer in batch] for batch in batches(row.relayer for row in rows))
            claimed += len(rows)
            if not queues.running:
                return claimed
            for readings in queues.finished(0 if rows else POLL_SECONDS):
                try:
                    write(readings)
                except DatabaseError:
                    logger.exception("Writing the checks of %d relayers failed", len(readings))


def _try_to_read(batch: list[RelayerHealth]) -> list[AccountReadings]:
    try:
        return read(batch)
    except Exception:
        logger.exception("Checking %d relayers failed", len(batch))
        return []


def lease_length() -> timedelta:
    """Return a time that is longer than the slowest reading and its writing."""
    return timedelta(seconds=attempts.DEADLINE_SECONDS + WRITING_SECONDS)


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


def read(rows: list[RelayerHealth]) -> list[AccountReadings]:
    """Return the readings of relayers that have the same nodes."""
    known = [row for row in rows if row.relayer.address]
    try:
        found = _read([row.relayer for row in known]) if known else []
    except NodesUnreachable as error:
        found = [AccountReading(reason=error.reasons) for _ in known]
    except DecryptionError:
        found = [AccountReading(reason="its RPC URLs cannot be decrypted") for _ in known]
    unknown = [(row, AccountReading()) for row in rows if not row.relayer.address]
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
    for answers in failover.answers(relayers[0].node_urls(), calls, relayers[0].expected_chain_id):
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
        now, mismatches = database_now(), address_mismatches([health.relayer for health, _ in readings])
        write_node_keys(health.relayer for health, _ in readings)
        _write(_locked([columns_to_change(*each, mismatches.get(each[0].pk, ""), now) for each in readings]), now)
    observe_checks(len(readings))


def _locked(found: list[Finding]) -> list[Finding]:
    """Lock what is held under its lease; a row that another transaction is writing has lost it."""
    held = RelayerHealth.objects.held(each.health for each in found)
    locked = {*held.select_for_update(no_key=True, skip_locked=True).values_list("pk", flat=True)}
    return [each for each in found if each.health.pk in locked]


def _write(found: list[Finding], now: datetime) -> None:
    due_at = now + timedelta(seconds=settings.HEALTH_CHECK_SECONDS * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311
    unchanged: dict[bool, list[RelayerHealth]] = {True: [], False: []}
    entries, switched = [], []
    for health, has_balance, changes, differing in found:
        if not differing:
            unchanged[has_balance].append(health)
            continue
        health.release(due_at, **check_timestamps(has_balance, now), **differing)
        announce(health, changes)
        if changes.get("runway_is_short") and not health.runway_is_short:
            announce_runway(health, changes, now)
        entries.append(audit_entry(health, changes))
        switched += [health.pk] if "system_disabled" in differing else []
    record(entries)
    guards.note_change(switched, {"system_disabled"})
    # Most checks find no change: one statement for all of them.
    for has_balance, rows in unchanged.items():
        if rows:
            RelayerHealth.objects.held(rows).update(due_at=due_at, lease=None, **check_timestamps(has_balance, now))


def write_node_keys(relayers: Iterable[Relayer]) -> None:
    """Write the keys of own nodes where they differ: in rows of earlier releases, or after a change of the secret."""
    differing: dict[tuple[str, str], list[int]] = defaultdict(list)
    for relayer in relayers:
        keys = relayer.own_node_keys()
        if keys != relayer.node_keys:
            differing[relayer.node_keys, keys].append(relayer.pk)
    for (before, keys), found in differing.items():
        # Unless staff have changed them since they were read.
        Relayer.objects.filter(pk__in=found, node_keys=before).update(node_keys=keys)


def check_timestamps(has_balance: bool, now: datetime) -> dict[str, datetime]:
    return {"checked_at": now, "balance_at": now} if has_balance else {"checked_at": now}


def columns_to_change(health: RelayerHealth, reading: AccountReading, mismatch: str, now: datetime) -> Finding:
    changes = judge(health, reading, mismatch)
    if changes:
        changes |= problem_starts(health, changes, now) | {"network": health.relayer.network}
    if "balance_text" in changes:
        changes |= histories(health, int(changes["balance_text"]), now)
    differing = {name: value for name, value in changes.items() if getattr(health, name) != value}
    return Finding(health, reading.balance is not None, changes, differing)


def judge(health: RelayerHealth, reading: AccountReading, mismatch: str = "") -> dict[str, Any]:
    """Return the columns that a reading sets; with a `mismatch` of the address the relayer is disabled immediately."""
    relayer = health.relayer
    if not relayer.address:
        return {}
    changes: dict[str, Any] = {"balance_is_low": health.balance_is_low}
    if reading.balance is not None:
        is_low = reading.balance < relayer.policies.get("min_balance", 0)
        changes |= {"balance_text": str(reading.balance), "balance_is_low": is_low}
    if mismatch:
        return changes | disabling_columns(mismatch) | {"failed_checks": 0, "good_checks": 0}
    if reading.nonce is None:
        failed = min(health.failed_checks + 1, FAILURES_TO_DISABLE)
        changes |= {"failed_checks": failed, "good_checks": 0}
        if health.system_disabled or failed >= FAILURES_TO_DISABLE:
            changes |= disabling_columns(f"The nonce could not be read from any node: {reading.reason}.")
        return changes
    good = min(health.good_checks + 1, SUCCESSES_TO_ENABLE)
    changes |= {"nonce": reading.nonce, "failed_checks": 0, "good_checks": good}
    if health.system_disabled and good >= SUCCESSES_TO_ENABLE:
        changes |= {"system_disabled": False, "disabled_reason_type": "", "disabled_reason_details": ""}
    return changes


def problem_starts(health: RelayerHealth, changes: Mapping[str, Any], now: datetime) -> dict[str, datetime | None]:
    """Return since when the problems of a relayer have lasted, after these changes."""
    is_disabled = changes.get("system_disabled", health.system_disabled)
    is_failing = is_disabled or changes.get("failed_checks", health.failed_checks) > 0
    return {
        "failing_since": (health.failing_since or now) if is_failing else None,
        "low_since": (health.low_since or now) if changes["balance_is_low"] else None,
    }


def disabling_columns(details: str) -> dict[str, Any]:
    return {
        "system_disabled": True,
        "disabled_reason_type": RelayerHealth.DisabledReason.NONCE_SYNC_FAILED.value,
        "disabled_reason_details": details,
    }


def audit_entry(health: RelayerHealth, changes: dict[str, Any]) -> AuditEntry | None:
    """Return the audit entry of the states that begin or end; readings are not recorded."""
    states = {name: changes.get(name, getattr(health, name)) for name in ("system_disabled", "balance_is_low")}
    reason = changes["disabled_reason_details"] if states["system_disabled"] and not health.system_disabled else ""
    return changed(health.relayer, {name: getattr(health, name) for name in states}, states, reason)


def announce(health: RelayerHealth, changes: dict[str, Any]) -> None:
    """Log and emit the states that begin or end; the instance still has the old ones."""
    is_low = changes["balance_is_low"]
    is_disabled = changes.get("system_disabled", health.system_disabled)
    if (is_low, is_disabled) == (health.balance_is_low, health.system_disabled):
        return
    relayer = health.relayer
    # Read now, as staff may have chosen another one since.
    notification = Notification.objects.filter(relayers=relayer).first()
    data, extra = event_data(relayer), {"fields": {"relayer": relayer.identifier, "network": relayer.network}}
    if is_low != health.balance_is_low:
        if is_low:
            logger.warning("The balance of relayer %s is low", relayer, extra=extra)
        else:
            logger.info("The balance of relayer %s is no longer low", relayer, extra=extra)
        event = events.RELAYER_LOW_BALANCE if is_low else events.RELAYER_BALANCE_RECOVERED
        balance, minimum = changes["balance_text"], str(relayer.policies.get("min_balance", 0))
        emit(event, notification, events.RelayerBalanceData(**data, balance=balance, min_balance=minimum))
    if is_disabled and not health.system_disabled:
        details = changes["disabled_reason_details"]
        logger.error("Relayer %s is disabled: %s", relayer, details, extra=extra)
        reason = events.DisabledReason(type=changes["disabled_reason_type"], details=details)
        change = events.RelayerChangeData(**data, actor=str(actors.current()), reason=details)
        emit(events.RELAYER_DISABLED, notification, events.RelayerDisabledData(**change, disabled_reason=reason))
    elif health.system_disabled and not is_disabled:
        logger.info("Relayer %s is enabled again", relayer, extra=extra)
        change = events.RelayerChangeData(**data, actor=str(actors.current()), reason="The nonce was read again.")
        emit(events.RELAYER_ENABLED, notification, change)


def histories(health: RelayerHealth, balance: int, now: datetime) -> dict[str, Any]:
    """Return the columns with the history of a balance and its minimum, and whether it will be used up soon."""
    changes: dict[str, Any] = {}
    minimum = health.relayer.policies.get("min_balance")
    text = "" if minimum is None else str(minimum)
    if text != (health.minimum_hours[-1][1] if health.minimum_hours else ""):
        changes["minimum_hours"] = with_reading(health.minimum_hours, text, now)
    if balance != health.balance:
        changes["balance_hours"] = with_reading(health.balance_hours, str(balance), now)
        changes["outflow_days"] = runway.with_outflow(health.outflow_days, health.balance, balance, now)
    outflows = changes.get("outflow_days", health.outflow_days)
    found = runway.runway(balance - health.relayer.reserve, outflows, health.balance_hours, now)
    return changes | {"runway_is_short": runway.is_short(found, was_short=health.runway_is_short)}


def announce_runway(health: RelayerHealth, changes: dict[str, Any], now: datetime) -> None:
    """Log and emit that a balance will be used up soon; the instance still has the old readings."""
    relayer, balance = health.relayer, int(changes["balance_text"])
    outflows = changes.get("outflow_days", health.outflow_days)
    found = runway.runway(balance - relayer.reserve, outflows, health.balance_hours, now)
    assert found is not None
    extra = {"fields": {"relayer": relayer.identifier, "network": relayer.network, "runway_days": found.whole_days}}
    logger.warning("The balance of relayer %s lasts %s at this rate", relayer, found.text, extra=extra)
    if notification := Notification.objects.filter(relayers=relayer).first():
        data = events.RelayerRunwayData(
            **event_data(relayer),
            balance=str(balance),
            outflow_per_day=str(found.outflow_per_day),
            runway_days=found.whole_days,
            threshold_days=runway.SHORT_DAYS,
        )
        emit(events.RELAYER_BALANCE_RUNWAY, notification, data)
