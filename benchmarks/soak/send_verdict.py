"""What was accepted, against the statuses at the end and what the chain executed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from benchmarks.sending.hardhat import MiningChain
from benchmarks.soak.send_callers import REPLACEMENT, Sender

OPEN_STATUSES = ("pending", "sent", "submitted", "mined")
OPEN = "SELECT count(*) FROM transactions_transaction WHERE status = ANY(%s)"
ROWS = "SELECT identifier, status, status_reason FROM transactions_transaction WHERE kind = 'request'"
OTHER_KINDS = "SELECT kind, count(*) FROM transactions_transaction WHERE kind <> 'request' GROUP BY kind"
ATTEMPTS = "SELECT purpose, count(*) FROM transactions_attempt GROUP BY purpose"
REORGED = "SELECT count(*) FROM transactions_statuschange WHERE from_status = 'mined' AND to_status = 'submitted'"
MAX_SHOWN = 20


@dataclass(frozen=True)
class Requested:
    """A request of a caller, and how often the chain executed it or its replacement."""

    executed: int
    # The id of its transaction, if it was accepted.
    identifier: str = ""
    cancel_requested: bool = False


@dataclass(frozen=True)
class Spent:
    """What a sender spent on the chain in the whole run, which is within one window, in wei."""

    value: int = 0
    gas_cost: int = 0


@dataclass(frozen=True)
class Judged:
    figures: dict[str, Any]
    # What no node may cause, and what only a node that is trusted may.
    faults: list[str]
    faults_of_trust: list[str] = field(default_factory=list)


def count_open(connection: psycopg.Connection[Any]) -> int:
    (found,) = connection.execute(OPEN, [list(OPEN_STATUSES)]).fetchone() or (0,)
    return int(found)


def judge(
    connection: psycopg.Connection[Any], chain: MiningChain, senders: Sequence[Sender], limits: Mapping[str, int]
) -> Judged:
    rows = {identifier: (status, why) for identifier, status, why in connection.execute(ROWS)}
    # Also what was never answered: it may have been accepted, and must not be executed twice either.
    requested = {number: read(chain, sender, number) for sender in senders for number in sender.sent_numbers()}
    judged = compare(rows, requested)
    spent = read_spent(chain, [sender.relayer.address for sender in senders])
    value, value_faults = over_limit("value", {name: each.value for name, each in spent.items()}, limits)
    gas_cost, _ = over_limit("gas_cost", {name: each.gas_cost for name, each in spent.items()}, limits)
    figures = judged.figures | {
        "wei_of_value_over_a_limit": value,
        "wei_of_gas_over_a_limit": gas_cost,
        "refused_by_a_limit": sum(len(sender.refused) for sender in senders),
        "asked_to_cancel": sum(len(sender.canceled) for sender in senders),
        "asked_to_replace": sum(len(sender.replaced) for sender in senders),
        "replayed_keys": sum(sender.replays for sender in senders),
        "reorged": (connection.execute(REORGED).fetchone() or (0,))[0],
        "attempts": dict(connection.execute(ATTEMPTS).fetchall()),
        "other_rows": dict(connection.execute(OTHER_KINDS).fetchall()),
    }
    faults = judged.faults + value_faults + [fault for sender in senders for fault in sender.faults]
    return Judged(figures, faults, judged.faults_of_trust)


def read(chain: MiningChain, sender: Sender, number: int) -> Requested:
    executed = chain.recorded(number)
    if number in sender.replaced:
        executed += chain.recorded(number + REPLACEMENT)
    return Requested(executed, sender.accepted.get(number, ""), number in sender.canceled)


def compare(rows: Mapping[str, tuple[str, str]], requested: Mapping[int, Requested]) -> Judged:
    """Compare statuses, each with its reason, with what was executed."""
    accepted = {number: each for number, each in requested.items() if each.identifier}
    lost = [each.identifier for each in accepted.values() if each.identifier not in rows]
    doubled = {number: each.executed for number, each in requested.items() if each.executed > 1}
    stuck = [f"{name} is {status}: {why}" for name, (status, why) in rows.items() if status in OPEN_STATUSES]
    contradicted, failed = [], []
    for number, each in accepted.items():
        status, why = rows.get(each.identifier, ("", ""))
        if status == "confirmed" and not each.executed:
            contradicted.append(f"the request {number} is confirmed and was not executed")
        elif is_failed(status) and each.executed:
            contradicted.append(f"the request {number} is {status} and was executed: {why}")
        elif is_failed(status) and not (status == "canceled" and each.cancel_requested):
            failed.append(f"{each.identifier} is {status}: {why}")
    figures = {
        "accepted": len(accepted),
        "final": sum(rows.get(each.identifier, ("",))[0] not in {*OPEN_STATUSES, ""} for each in accepted.values()),
        "lost": len(lost),
        "doubled": len(doubled),
        "stuck": len(stuck),
        "contradicted": len(contradicted),
        "rows": len(rows),
        "statuses": dict(Counter(status for status, _ in rows.values())),
    }
    faults = [f"{name} was accepted and is not stored" for name in lost]
    faults += [f"the request {number} was executed {times} times" for number, times in doubled.items()]
    return Judged(figures, faults, contradicted[:MAX_SHOWN] + stuck[:MAX_SHOWN] + failed[:MAX_SHOWN])


def is_failed(status: str) -> bool:
    """Return whether a status is final, and not that of a transaction that was executed."""
    return bool(status) and status not in OPEN_STATUSES and status != "confirmed"


def read_spent(chain: MiningChain, addresses: Sequence[str]) -> dict[str, Spent]:
    """Return what the chain's blocks have of each sender."""
    spent = {address.lower(): Spent() for address in addresses}
    for number in range(chain.head() + 1):
        for entry in chain.rpc("eth_getBlockByNumber", hex(number), True)["transactions"]:
            if (sender := entry["from"].lower()) not in spent:
                continue
            receipt = chain.rpc("eth_getTransactionReceipt", entry["hash"])
            gas_cost = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
            value = int(entry["value"], 16) if receipt["status"] == "0x1" else 0
            before = spent[sender]
            spent[sender] = Spent(before.value + value, before.gas_cost + gas_cost)
    return spent


def over_limit(name: str, spent: Mapping[str, int], limits: Mapping[str, int]) -> tuple[int, list[str]]:
    """Return by how much all senders together exceed their limits of a day, and who does."""
    limit = limits.get(f"max_{name}_per_day")
    if limit is None:
        return 0, []
    over = {address: amount - limit for address, amount in spent.items() if amount > limit}
    faults = [f"{address} spent {amount} wei of {name} over its limit of {limit}" for address, amount in over.items()]
    return sum(over.values()), faults
