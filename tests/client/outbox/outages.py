"""Send an outbox over five relayers while senders and the service are killed, and its database is restored once.

python -m tests.client.outbox.outages FOLDER NODE_URL \
    '{"rows": 1000, "sender_kills": 20, "service_kills": 5, "measures": true}'

The environment is that of `tests/client/outbox/shop_settings.py`, but the service is started here. One relayer refuses
and one is missing. Each row pays another address, whose balance shows how often it was paid.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command

from relayer_service.processes import is_running
from tests.chain.hardhat import Chain
from tests.chaos.children import Child
from tests.client.outbox.killing import AT_RANDOM, send
from tests.concurrency import PATIENCE_SECONDS, wait_until
from tests.integration import test_run
from tests.processes import children
from tests.servers import PROJECT

HEALTHY, REFUSING, MISSING = ("healthy-1", "healthy-2", "healthy-3"), "refusing", "missing"
RELAYERS = (*HEALTHY, REFUSING, MISSING)
# Of the healthy rows that are final: when the database is saved, and when that backup is restored.
BACKUP_AT, RESTORE_AT = 0.3, 0.6
LONGEST_SECONDS = 10 * PATIENCE_SECONDS


class Host:
    """The service as `make run` starts it, in a folder of its own, with a node."""

    def __init__(self, folder: Path, chain: Chain) -> None:
        self.process = test_run.Service(folder / "data")
        self._database, self._backup = folder / "data/db.sqlite3", folder / "backup.sqlite3"
        self.process.start()
        os.environ |= {"RELAYER_URL": self.process.url, "RELAYER_TOKEN": self.process.printed("Token")}
        self._add_relayers(chain)

    def _add_relayers(self, chain: Chain) -> None:
        from relayer_client import Client

        with Client.from_env() as client:
            for number, name in enumerate((*HEALTHY, REFUSING), 1):
                client.create_signer(id=name, type="plain", config={"key": f"{number:#066x}"})
                relayer = client.create_relayer(
                    id=name, name=name, network="hardhat", signer_id=name, custom_rpc_urls=[chain.url]
                )
                chain.rpc("hardhat_setBalance", relayer.address, hex(10**20))
            client.update_relayer(REFUSING, paused=True)

    def kill(self) -> None:
        """Kill all of its processes, of which those that it started end by themselves."""
        started = children(self.process.process.pid)
        self.process.stop(signal.SIGKILL)
        wait_until(lambda: not any(map(is_running, started)))

    def restart(self) -> None:
        self.kill()
        self.process.start()

    def back_up(self) -> None:
        with closing(sqlite3.connect(self._database)) as source, closing(sqlite3.connect(self._backup)) as target:
            source.backup(target)

    def restore(self) -> None:
        self.kill()
        for suffix in ("-wal", "-shm"):
            Path(f"{self._database}{suffix}").unlink(missing_ok=True)
        self._backup.rename(self._database)
        env = {**test_run.environment(self.process.data_dir), "DJANGO_SETTINGS_MODULE": "relayer_service.settings"}
        command = [sys.executable, "manage.py", "hold_lanes", "--restored"]
        subprocess.run(command, cwd=PROJECT, env=env, check=True, capture_output=True)
        self.process.start()


class Senders:
    def __init__(self) -> None:
        self.kills = 0
        self._running: list[Child] = []
        self._chance = random.Random(1)

    def start(self) -> None:
        from django.db import connections

        connections.close_all()
        for _ in range(2 - len(self._running)):
            child = Child(send)
            child.go(step=AT_RANDOM, count=0)
            self._running.append(child)

    def kill_one(self) -> None:
        child = self._running.pop(self._chance.randrange(len(self._running)))
        assert child.is_running, f"it ended with {child.exit_code}"
        child.end()
        self.kills += 1
        self.start()

    def end(self) -> None:
        for child in self._running:
            child.end()
        self._running.clear()


@contextmanager
def sending() -> Iterator[Senders]:
    senders = Senders()
    senders.start()
    try:
        yield senders
    finally:
        senders.end()


def receiver(number: int) -> str:
    return f"0x{number + 0xFEED0000:040x}"


def add(first: int, rows: int, relayers: tuple[str, ...]) -> None:
    """Commit as many rows for each relayer, in turn."""
    from django.db.transaction import atomic

    from relayer_client.outbox import enqueue

    with atomic():
        for number in range(first, first + rows):
            relayer = relayers[number % len(relayers)]
            enqueue(relayer, key=f"{relayer}-{number}", to=receiver(number), value=1)


def reported_rows() -> int:
    """Return how many rows of healthy relayers have ended."""
    from relayer_client.outbox.models import OutboxTransaction

    return OutboxTransaction.objects.filter(relayer__in=HEALTHY).exclude(notified_at=None).count()


def wait_for_reports(count: int) -> None:
    wait_until(lambda: reported_rows() >= count, LONGEST_SECONDS)


def acknowledge() -> None:
    """Do what staff do in the admin after a restore."""
    from django.contrib.admin import site
    from django.test import RequestFactory

    from relayer_client.outbox.models import RelayerGeneration

    page: Any = site.get_model_admin(RelayerGeneration)
    page.log_change = lambda *_: None
    page.acknowledge(RequestFactory().post("/"), RelayerGeneration.objects.exclude(evidence=""))


def is_held() -> bool:
    from relayer_client.outbox.models import RelayerGeneration

    return RelayerGeneration.objects.exclude(evidence="").exists()


def break_down(host: Host, first: int, rows: int, sender_kills: int, service_kills: int) -> int:
    """Kill senders and the service, each at its share of the healthy rows; return how many senders were killed.

    Half of the rows are added after the backup, which lacks them.
    """
    from relayer_client.outbox.models import OutboxTransaction

    healthy = rows * len(HEALTHY) // len(RELAYERS)
    add(first, rows // 2, RELAYERS)
    with sending() as senders:

        def back_up() -> None:
            host.back_up()
            add(first + rows // 2, rows - rows // 2, RELAYERS)

        def restore() -> None:
            host.restore()
            # Where all had ended before, there is nothing that the restored service could be missing.
            wait_until(lambda: is_held() or reported_rows() == healthy, LONGEST_SECONDS)
            senders.end()
            acknowledge()
            senders.start()

        events = [(BACKUP_AT, back_up), (RESTORE_AT, restore)]
        for work, count in ((senders.kill_one, sender_kills), (host.restart, service_kills)):
            events += [((number + 1) / (count + 1), work) for number in range(count)]
        for share, work in sorted(events, key=lambda event: event[0]):
            wait_for_reports(int(share * healthy))
            work()
        open_rows = OutboxTransaction.objects.filter(notified_at=None).exclude(relayer=REFUSING)
        wait_until(lambda: not open_rows.exists(), LONGEST_SECONDS)
    return senders.kills


def measure(rows: int, relayers: tuple[str, ...]) -> float:
    """Return how long the healthy relayers take for their share of the rows, without any kill."""
    from relayer_client.outbox.models import OutboxTransaction

    add(0, rows, relayers)
    healthy = OutboxTransaction.objects.filter(relayer__in=HEALTHY).count()
    with sending():
        started = time.monotonic()
        wait_for_reports(healthy)
        seconds = time.monotonic() - started
    OutboxTransaction.objects.all().delete()
    return seconds


def run(
    folder: Path, chain: Chain, rows: int, sender_kills: int, service_kills: int, *, measures: bool = False
) -> dict[str, Any]:
    host = Host(folder, chain)
    try:
        django.setup()
        call_command("migrate", verbosity=0)
        seconds = {}
        if measures:
            seconds = {"healthy": measure(rows * 3 // 5, HEALTHY), "beside others": measure(rows, RELAYERS)}
        first, started = rows if measures else 0, time.monotonic()
        kills = break_down(host, first, rows, sender_kills, service_kills)
        seconds["with kills"] = time.monotonic() - started
        return {"sender_kills": kills, "seconds": seconds, "rows": read_rows(chain, first, rows)}
    finally:
        host.process.stop()


def read_rows(chain: Chain, first: int, rows: int) -> list[tuple[str, str, bool, int, int]]:
    """Return how many rows of a relayer have a status, with a reason or without, and were paid so often."""
    from relayer_client.outbox.models import OutboxTransaction

    found = {row.to: row for row in OutboxTransaction.objects.all()}
    kinds: Counter[tuple[str, str, bool, int]] = Counter()
    for number in range(first, first + rows):
        row, paid = found[receiver(number)], int(chain.rpc("eth_getBalance", receiver(number), "latest"), 16)
        kinds[row.relayer.partition("-")[0], row.status, bool(row.status_reason), paid] += 1
    return [(*kind, count) for kind, count in sorted(kinds.items())]


if __name__ == "__main__":
    print(json.dumps(run(Path(sys.argv[1]), Chain(sys.argv[2]), **json.loads(sys.argv[3]))))
