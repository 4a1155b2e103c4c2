"""What callers were promised, against what the service has at the end and what has arrived."""

import http.client
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import psycopg

from benchmarks.soak.answers import PAGE
from benchmarks.soak.callers import SIGNERS, Creator, Patcher, Pauser, Prober
from benchmarks.soak.client import Client, Request
from benchmarks.soak.receiver import Receiver

OUTBOX = """
SELECT delivery.identifier, event, target.identifier, state, extract(epoch FROM delivery.created_at)::float8,
  convert_from(body, 'UTF8')::json #>> '{data,relayer_id}'
FROM notifications_delivery AS delivery JOIN notifications_notification AS target
  ON target.sequence = delivery.notification_id
ORDER BY delivery.id
"""
PENDING = "SELECT count(*) FROM notifications_delivery WHERE state = 'pending'"
PER_PAGE = 1000
PERCENTILES = {"p50": 0.5, "p99": 0.99, "longest": 1.0}


@dataclass(frozen=True)
class Emitted:
    """A row of the outbox."""

    identifier: str
    event: str
    target: str
    state: str
    created_at: float
    relayer: str | None


def outbox(connection: psycopg.Connection[Any]) -> list[Emitted]:
    return [Emitted(*row) for row in connection.execute(OUTBOX)]


def lost_signers(client: Client, creators: Iterable[Creator]) -> list[str]:
    """Read the whole list; return what is missing of what was acknowledged, and what is there twice."""
    listed: Counter[str] = Counter()
    page, total = 1, 1
    while (page - 1) * PER_PAGE < total:
        path = f"{SIGNERS}?per_page={PER_PAGE}&page={page}"
        reply = client.ask(Request("read back", PAGE, "GET", path))
        if reply is None:
            return [f"{path} cannot be read at the end"]
        content = reply.content
        listed.update(signer["id"] for signer in content["data"])
        page, total = page + 1, content["pagination"]["total_items"]
    promised = set().union(*(creator.acknowledged for creator in creators))
    faults = [f"{identifier} was acknowledged and is not listed" for identifier in promised - set(listed)]
    faults += [f"{identifier} is listed {times} times" for identifier, times in listed.items() if times > 1]
    if total != sum(listed.values()):
        faults.append(f"the list of signers has {sum(listed.values())} and says that it has {total}")
    return faults


def lost_patches(patchers: Iterable[Patcher]) -> list[str]:
    """Return which webhooks have not the last change that was acknowledged, or a later one."""
    faults = []
    for patcher in patchers:
        number = patcher.read_back()
        if number is None or not patcher.acknowledged <= number <= patcher.sent:
            name, sent = patcher.target.identifier, f"{patcher.acknowledged} of {patcher.sent}"
            faults.append(f"{name} has the change {number}; acknowledged was {sent}")
    return faults


def lost_events(emitted: list[Emitted], pausers: Iterable[Pauser], probers: Iterable[Prober]) -> list[str]:
    """Return where the outbox has not what was acknowledged, or more than was asked for."""
    faults = []
    for prober in probers:
        name = prober.target.identifier
        found = sum(row.event == "notification.test" and row.target == name for row in emitted)
        if not prober.acknowledged <= found <= prober.acknowledged + prober.unanswered:
            faults.append(f"{name}: {found} test events for {prober.acknowledged} acknowledged ones")
    for pauser in pausers:
        name = pauser.relayer.identifier
        events = [row.event for row in emitted if row.relayer == name]
        if not pauser.acknowledged <= len(events) <= pauser.acknowledged + pauser.unanswered:
            faults.append(f"{name}: {len(events)} events for {pauser.acknowledged} acknowledged changes")
        if any(before == after for before, after in pairwise(events)):
            faults.append(f"{name}: was paused or resumed twice in a row: {events}")
    # The node was never away.
    checked = {"relayer.disabled", "relayer.enabled"}
    return faults + [f"{row.relayer}: {row.event}" for row in emitted if row.event in checked]


def lost_webhooks(emitted: list[Emitted], receiver: Receiver) -> list[str]:
    """Return which webhooks did not arrive, which are not known to have, and which should not have."""
    names = {row.identifier for row in emitted}
    faults = [
        f"{row.identifier} ({row.event}) never arrived" for row in emitted if row.identifier not in receiver.taken
    ]
    faults += [f"{row.identifier} ({row.event}) is {row.state}" for row in emitted if row.state != "delivered"]
    faults += [f"{name} arrived and was never emitted" for name in receiver.taken.keys() - names]
    return faults + [f"a wrong signature: {text}" for text in receiver.forged]


def webhook_figures(emitted: list[Emitted], receiver: Receiver) -> dict[str, Any]:
    arrived = [row for row in emitted if row.identifier in receiver.taken]
    waits = sorted(receiver.taken[row.identifier][0] - row.created_at for row in arrived)
    return {
        "emitted": len(emitted),
        "by_event": dict(Counter(row.event for row in emitted)),
        "lost": len(emitted) - len(arrived),
        "duplicates": sum(len(times) - 1 for times in receiver.taken.values()),
        "answered_503_by_the_receiver": receiver.refused,
        "seconds_until_arrival": {
            name: round(waits[int((len(waits) - 1) * part)], 2) for name, part in PERCENTILES.items() if waits
        },
    }


def not_ready(port: int) -> list[str]:
    """Return what does not work although everything has been back for a while."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/ready")
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        return [f"/ready does not answer at the end: {error!r}"]
    finally:
        connection.close()
    return [] if response.status == 200 else [f"/ready answers {response.status} at the end: {body!r}"]
