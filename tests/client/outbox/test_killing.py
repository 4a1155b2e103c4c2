"""Callers and senders of the shop are killed at every step: each payout is executed exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from eth_utils.crypto import keccak

from tests import databases, processes
from tests.amounts import amount
from tests.client.outbox.killing import AT_RANDOM, CALLER_STEPS, SENDER_STEPS, receiver
from tests.client.outbox.shop import environment
from tests.client.running import Service
from tests.servers import PROJECT
from tests.transactions.hardhat import LocalChain

TRANSFER_EVENT = f"0x{keccak(text='Transfer(address,address,uint256)').hex()}"


def transfers(chain: LocalChain, token: str) -> Counter[str]:
    """Return how often each address was paid."""
    query = {"address": token, "topics": [TRANSFER_EVENT], "fromBlock": "0x0", "toBlock": "latest"}
    return Counter(f"0x{each['topics'][2][-40:]}" for each in chain.rpc("eth_getLogs", query))


@pytest.mark.long
def test_each_payout_is_executed_once_whoever_is_killed(
    transactional_db: None, service: Service, node: LocalChain, shop_token: str, tmp_path: Path
) -> None:
    # On SQLite one sender at a time can claim rows.
    is_shared = connection.vendor == "postgresql"
    counts, random_kills = [1, 2, 7][: amount(1, 3 if is_shared else 1)], amount(0, 8 if is_shared else 2)
    plan = {"counts": counts, "random_kills": random_kills}
    before = transfers(node, shop_token)
    with databases.empty("shop", tmp_path), service.client() as client:
        known = {each.id for each in client.relayer("shop").list_transactions(per_page=1000)}
        settings = {"DJANGO_SETTINGS_MODULE": "tests.client.outbox.shop_settings", "TOKEN_CONTRACT": shop_token}
        env = environment(service, SHOP_DATABASE_URL=processes.database_url("shop"), **settings)
        command = [sys.executable, "-m", "tests.client.outbox.killing", json.dumps(plan)]
        done = subprocess.run(command, cwd=PROJECT, env=env, stdout=subprocess.PIPE, text=True, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        new = [each for each in client.relayer("shop").list_transactions(per_page=1000) if each.id not in known]
    rows = len(result["reported"])
    assert result["payouts"] == result["outbox"] == {"confirmed": rows}
    assert result["reported"] == {f"payout-{number}": 1 for number in range(rows)}
    assert [each.status for each in new] == ["confirmed"] * rows
    paid = transfers(node, shop_token) - before
    assert paid == {receiver(number): 1 for number in range(rows)}
    killed = dict.fromkeys((*CALLER_STEPS, *SENDER_STEPS), len(counts))
    assert result["killed"] == killed | ({AT_RANDOM: random_kills} if random_kills else {})
