"""Transactions that are sent while all processes of the service are killed again and again."""

import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import Failed
from benchmarks.sending.burst import body
from benchmarks.sending.deployment import Deployment
from benchmarks.sending.hardhat import MiningChain
from benchmarks.sending.rows import Senders

PAUSE_SECONDS = 0.2
ANSWER_SECONDS = 10
MAX_SECONDS = 240
# Numbers of the ledger that nobody else uses.
FIRST_NUMBER = 10**9
ACKNOWLEDGED = "SELECT status FROM transactions_transaction WHERE identifier = ANY(%s)"


@dataclass
class Crashes:
    confirmed: int
    doubled: int
    # From the last kill until the last was confirmed.
    seconds: float


@dataclass
class Sender:
    """Sends one transaction after another until so many are acknowledged; one without an answer is sent again."""

    port: int
    chain: MiningChain
    senders: Senders
    sends: int
    acknowledged: list[str] = field(default_factory=list)

    def run(self) -> None:
        while len(self.acknowledged) < self.sends:
            identifier = self.send(FIRST_NUMBER + len(self.acknowledged))
            if identifier:
                self.acknowledged.append(identifier)
            time.sleep(PAUSE_SECONDS)

    def send(self, number: int) -> str:
        """Return the id of the transaction, or "" without an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        headers = {"Authorization": f"Bearer {self.senders.token}", "Content-Type": "application/json"}
        headers["Idempotency-Key"] = str(number)
        try:
            connection.request("POST", self.senders.path(), body(self.chain, number), headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            return ""
        finally:
            connection.close()
        return str(json.loads(content)["data"]["id"]) if response.status == 200 else ""


def send_while_killing(
    deployment: Deployment, chain: MiningChain, senders: Senders, sends: int, kills: int
) -> Crashes:
    sender = Sender(deployment.port, chain, senders, sends)
    thread = threading.Thread(target=sender.run, daemon=True)
    thread.start()
    killed = time.monotonic()
    for number in range(kills):
        wait_until_acknowledged(sender, (number + 1) * sends // (kills + 1))
        deployment.kill_all()
        killed = time.monotonic()
        deployment.start_web()
        deployment.start_worker()
        deployment.wait_for_web()
    thread.join(MAX_SECONDS)
    with deployment.database.connect() as connection:
        confirmed = wait_until_final(connection, sender.acknowledged)
    seconds = time.monotonic() - killed
    counts = [chain.recorded(FIRST_NUMBER + number) for number in range(sends)]
    return Crashes(min(confirmed, sum(count > 0 for count in counts)), sum(count > 1 for count in counts), seconds)


def wait_until_acknowledged(sender: Sender, count: int) -> None:
    deadline = time.monotonic() + MAX_SECONDS
    while len(sender.acknowledged) < count:
        if time.monotonic() > deadline:
            raise Failed(f"only {len(sender.acknowledged)} sends were acknowledged")
        time.sleep(0.01)


def wait_until_final(connection: Any, identifiers: list[str]) -> int:
    """Return how many are confirmed, once all are or the time is over."""
    deadline = time.monotonic() + MAX_SECONDS
    while True:
        statuses = [status for (status,) in connection.execute(ACKNOWLEDGED, [identifiers])]
        confirmed = statuses.count("confirmed")
        if confirmed == len(identifiers) or time.monotonic() > deadline:
            return confirmed
        time.sleep(0.5)
