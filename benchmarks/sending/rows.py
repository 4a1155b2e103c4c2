"""The relayers that send, each with a local key, and rows of transactions as the service would have them."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.databases import Database, run_apart
from tests.servers import PROJECT

NETWORK = "hardhat"
RECEIVER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
# Of a relayer, by its number.
RELAYER = "sender-{}"
USER = "senders"
# In a bulk insert.
BATCH_ROWS = 1_000


@dataclass(frozen=True)
class Senders:
    token: str
    relayers: list[str]
    addresses: list[str]

    def path(self, number: int = 0) -> str:
        return f"/api/v1/relayers/{self.relayers[number]}/transactions"


def create_apart(
    database: Database,
    settings: dict[str, str],
    node: str,
    count: int,
    webhook: str = "",
    queued: int = 0,
    project: Path = PROJECT,
) -> Senders:
    """Create relayers in a database, with the same number of queued transactions each, and return them."""
    code = f"from benchmarks.sending.rows import create; create({node!r}, {count}, {webhook!r}, {queued})"
    command = ["manage.py", "shell", "--no-imports", "-c", code]
    return Senders(**json.loads(run_apart(command, database.environment | settings, project)))


def queue_apart(database: Database, settings: dict[str, str], count: int, project: Path = PROJECT) -> None:
    """Queue so many transactions of each relayer."""
    code = f"""
from benchmarks.sending.rows import add_queued
from relayers.models import Relayer
for relayer in Relayer.objects.all():
    add_queued(relayer, {count})
"""
    run_apart(["manage.py", "shell", "--no-imports", "-c", code], database.environment | settings, project)


def create(node: str, count: int, webhook: str, queued: int) -> None:
    from django.contrib.auth.models import User

    from relayers.models import Relayer
    from tokens.writes import issue

    target = new_target(webhook) if webhook else None
    relayers = [new_relayer(number, node, target) for number in range(count)]
    Relayer.objects.bulk_create(relayers)
    for relayer in relayers:
        if queued:
            add_queued(relayer, queued)
    user, _ = User.objects.get_or_create(username=USER)
    token = str(issue(name="senders", user=user, scopes=["send", "manage"])[1])
    names = [relayer.identifier for relayer in relayers]
    print(json.dumps({"token": token, "relayers": names, "addresses": [each.address for each in relayers]}))


def limit_apart(database: Database, settings: dict[str, str], count: int) -> None:
    """Set ten spending rules on each of the first relayers; nothing that is sent exceeds them."""
    code = f"from benchmarks.sending.rows import limit; limit({count})"
    run_apart(["manage.py", "shell", "--no-imports", "-c", code], database.environment | settings)


def limit(count: int) -> None:
    from relayers.models import Relayer
    from spending.models import SpendingPolicy
    from spending.rules import validate_rules

    others = [f"0x{number:040x}" for number in range(1, 5)]
    rules = {
        "max_value": str(10**18),
        "max_value_per_day": str(10**24),
        "max_gas_cost_per_day": str(10**24),
        "receivers": [{"address": RECEIVER}, *({"address": each, "selectors": ["0xa9059cbb"]} for each in others[:3])],
        "tokens": [{"contract": others[3], "recipients": others, "max_amount": "1000", "max_amount_per_day": "9000"}],
    }
    for number in range(count):
        policy = SpendingPolicy.objects.create(rules=validate_rules(rules))
        Relayer.objects.filter(identifier=RELAYER.format(number)).update(spending=policy)


def new_target(url: str) -> Any:
    from notifications.models import Notification

    target = Notification(identifier="senders", url=url)
    target.set_signing_key("a signing key of some length")
    target.save()
    return target


def new_relayer(number: int, node: str, target: Any) -> Any:
    from eth_account import Account
    from eth_utils.crypto import keccak

    from relayers.models import Relayer
    from signers.models import Signer

    key = "0x" + keccak(f"sender {number}".encode()).hex()
    signer = Signer(identifier=RELAYER.format(number), type="plain")
    signer.set_config({"key": key})
    signer.save()
    name, address = RELAYER.format(number), Account.from_key(key).address
    relayer = Relayer(identifier=name, name=name, network=NETWORK, address=address, signer=signer)
    relayer.notification = target
    relayer.set_rpc_urls([{"url": node, "weight": 100}])
    return relayer


def add_queued(relayer: Any, count: int) -> None:
    """Add pending transactions of a relayer with their first status change, as accepting does."""
    from relayer_service.database.clock import database_now
    from transactions.models import Lane, Status, StatusChange, Transaction

    now = database_now()
    lane, _ = Lane.objects.get_or_create(
        chain_id=relayer.expected_chain_id, address=relayer.address, defaults={"relayer": relayer}
    )
    for start in range(0, count, BATCH_ROWS):
        rows = Transaction.objects.bulk_create(
            Transaction(
                relayer=relayer,
                lane=lane,
                to=RECEIVER,
                value_text="1",
                created_at=now,
                due_at=now,
                valid_until=now + timedelta(hours=8),
            )
            for _ in range(min(BATCH_ROWS, count - start))
        )
        changes = [StatusChange(transaction=row, version=1, to_status=Status.PENDING, at=now) for row in rows]
        StatusChange.objects.bulk_create(changes)
