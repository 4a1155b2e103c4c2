"""Transactions that callers send at once through one relayer, until all of them are confirmed."""

import json
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.load import Load, Request, drive
from benchmarks.report import Failed
from benchmarks.sending.deployment import Deployment
from benchmarks.sending.hardhat import MiningChain, record
from benchmarks.sending.rows import Senders

MAX_SECONDS = 120
STATUS = 200
# By relayer, the newest ones.
TIMES = """
SELECT extract(epoch FROM submitted_at - created_at)::float8, extract(epoch FROM finished_at - first)::float8, status
FROM (
  SELECT *, min(created_at) OVER () AS first FROM transactions_transaction
  WHERE relayer_id = (SELECT sequence FROM relayers_relayer WHERE identifier = %s)
    AND kind = 'request' AND sequence > %s
) AS sent
ORDER BY sequence
"""
NEWEST = "SELECT coalesce(max(sequence), 0) FROM transactions_transaction"


@dataclass(frozen=True)
class Burst:
    accepted: Load
    # Seconds from its acceptance, and from that of the first.
    submitted: list[float]
    confirmed: list[float]

    @property
    def submitted_p50(self) -> float:
        return sorted(self.submitted)[len(self.submitted) // 2]


def body(chain: MiningChain, number: int) -> str:
    return json.dumps({"to": chain.ledger, "value": 0, "data": record(number), "speed": "fast"})


def send_at_once(deployment: Deployment, chain: MiningChain, senders: Senders, sends: int, callers: int) -> Burst:
    with deployment.database.connect() as connection:
        (newest,) = connection.execute(NEWEST).fetchone()
        requests = [
            Request(senders.path(), f"Bearer {senders.token}", "POST", body(chain, newest + number), status=STATUS)
            for number in range(1, sends + 1)
        ]
        accepted = drive(deployment.port, [(request.encoded(), request) for request in requests], callers)
        found = wait_until_confirmed(connection, senders.relayers[0], newest, sends)
    return Burst(accepted, [row[0] for row in found], [row[1] for row in found])


def wait_until_confirmed(connection: Any, relayer: str, newest: int, sends: int) -> list[Any]:
    deadline = time.monotonic() + MAX_SECONDS
    while time.monotonic() < deadline:
        found: list[Any] = connection.execute(TIMES, [relayer, newest]).fetchall()
        if len(found) == sends and all(status == "confirmed" for _, _, status in found):
            return found
        time.sleep(0.1)
    raise Failed(f"not all of {sends} were confirmed within {MAX_SECONDS} s: {found}")
