"""What was accepted, against the statuses at the end and what the chain executed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from benchmarks.sending.hardhat import MiningChain
from benchmarks.soak.send_callers import Sender

OPEN_STATUSES = ("pending", "sent", "submitted", "mined")
OPEN = "SELECT count(*) FROM transactions_transaction WHERE status = ANY(%s)"
ROWS = """
SELECT identifier, idempotency_key, status, status_reason FROM transactions_transaction WHERE kind = 'request'
"""
OTHER_KINDS = "SELECT kind, count(*) FROM transactions_transaction WHERE kind <> 'request' GROUP BY kind"
ATTEMPTS = "SELECT purpose, count(*) FROM transactions_attempt GROUP BY purpose"
REORGED = "SELECT count(*) FROM transactions_statuschange WHERE from_status = 'mined' AND to_status = 'submitted'"
MAX_SHOWN = 20


@dataclass(frozen=True)
class Judged:
    figures: dict[str, Any]
    faults: list[str]


def count_open(connection: psycopg.Connection[Any]) -> int:
    (found,) = connection.execute(OPEN, [list(OPEN_STATUSES)]).fetchone() or (0,)
    return int(found)


def judge(connection: psycopg.Connection[Any], chain: MiningChain, senders: Sequence[Sender]) -> Judged:
    rows = {row[0]: row[1:] for row in connection.execute(ROWS)}
    accepted = {number: name for sender in senders for number, name in sender.accepted.items()}
    # Also what was never answered: it may have been accepted, and must not be executed twice either.
    attempted = {number: chain.recorded(number) for sender in senders for number in sender.sent_numbers()}
    lost = [name for name in accepted.values() if name not in rows]
    stuck = [f"{name} is {status}: {why}" for name, (_, status, why) in rows.items() if status in OPEN_STATUSES]
    doubled = [number for number, times in attempted.items() if times > 1]
    confirmed = {name for name, (_, status, _) in rows.items() if status == "confirmed"}
    missing = [number for number, name in accepted.items() if name in confirmed and not attempted[number]]
    failed = [f"{name} is {status}: {why}" for name, (_, status, why) in rows.items() if is_failed(status)]
    faults = [f"{name} was accepted and is not stored" for name in lost]
    faults += [f"the request {number} was executed {attempted[number]} times" for number in doubled]
    faults += [f"the request {number} is confirmed and was not executed" for number in missing]
    faults += stuck[:MAX_SHOWN] + failed[:MAX_SHOWN]
    faults += [fault for sender in senders for fault in sender.faults]
    statuses = Counter(status for _, status, _ in rows.values())
    figures = {
        "accepted": len(accepted),
        "final": sum(name in rows and rows[name][1] not in OPEN_STATUSES for name in accepted.values()),
        "lost": len(lost) + len(missing),
        "doubled": len(doubled),
        "stuck": len(stuck),
        "rows": len(rows),
        "statuses": dict(statuses),
        "replayed_keys": sum(sender.replays for sender in senders),
        "reorged": (connection.execute(REORGED).fetchone() or (0,))[0],
        "attempts": dict(connection.execute(ATTEMPTS).fetchall()),
        "other_rows": dict(connection.execute(OTHER_KINDS).fetchall()),
    }
    return Judged(figures, faults)


def is_failed(status: str) -> bool:
    """Return whether a status is final, and not that of a transaction that was executed."""
    return status not in OPEN_STATUSES and status != "confirmed"
