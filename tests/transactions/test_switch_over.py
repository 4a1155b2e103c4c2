"""The drill of docs/migrating.md: the account of another service is taken over with its transactions in flight."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from notifications.models import Delivery
from tests.api import Answer, Api
from tests.relayers import config_files
from tests.relayers.factories import KEY
from tests.transactions.accounts import ledger_id
from tests.transactions.engines import Engine, run_until_final
from tests.transactions.hardhat import GWEI, record
from tests.transactions.mempool import MempoolChain
from tokens.writes import issue
from transactions.lanes import leasing
from transactions.models import Lane, Transaction

RELAYER = "/api/v1/relayers/relayer-1"
HIGH_PRICE = {"maxFeePerGas": 1_000 * GWEI, "maxPriorityFeePerGas": 500 * GWEI}


class Drill:
    """Two services that have the same key: the one that is left, and this one, whose relayer is loaded paused."""

    def __init__(self, chain: MempoolChain, folder: Path) -> None:
        self.chain = chain
        relayer = config_files.SPARSE | {
            "network": "hardhat",
            "notification_id": "hook-1",
            "custom_rpc_urls": [{"url": chain.url}],
            "paused": True,
        }
        config_files.load(config_files.document(relayer), folder)
        user = User.objects.create_user("drill")
        self.api = Api(str(issue(name="drill", user=user, scopes=["send", "manage"])[1]))
        self.engine = Engine(0)

    def old_sends(self, name: str, nonce: int, **fields: Any) -> str:
        """Send what records a name from the other service, and return its hash."""
        return self.chain.send_from(KEY, nonce, to=self.chain.ledger, value=0, data=record(ledger_id(name)), **fields)

    def post(self, name: str) -> Answer:
        data = f"0x{record(ledger_id(name)).hex()}"
        return self.api.post(f"{RELAYER}/transactions", {"to": self.chain.ledger, "value": 0, "data": data})

    def send(self, name: str) -> str:
        answer = self.post(name)
        assert answer.status == 200, answer.text
        self.engine.lane_pk = Lane.objects.get().pk
        return str(answer.body["data"]["id"])

    def resume(self) -> None:
        assert self.api.patch(RELAYER, {"paused": False}).status == 200

    def claim(self) -> None:
        """Claim the lane and look at the chain, before a turn is taken."""
        self.engine.lane = leasing.claim(self.engine.lane_pk)
        self.engine.look()

    def finish(self) -> None:
        run_until_final(self.engine, self.chain)
        call_command("check_lanes", stdout=io.StringIO())

    def recorded(self, *names: str) -> list[int]:
        return [self.chain.recorded(self.chain.ledger, ledger_id(name)) for name in names]


def compared() -> tuple[str, int]:
    """Return the line of the relayer, and the exit code."""
    output = io.StringIO()
    code = 0
    try:
        call_command("compare_nonces", "--relayer", "relayer-1", stdout=output)
    except CommandError as error:
        code = error.returncode
    return output.getvalue().splitlines()[0], code


def rows() -> list[tuple[Any, ...]]:
    return list(Transaction.objects.order_by("nonce").values_list("nonce", "kind", "status"))


@pytest.fixture
def drill(mempool: MempoolChain, transactional_db: None, settings: Any, tmp_path: Path) -> Drill:
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    return Drill(mempool, tmp_path)


def test_the_drill_waits_for_what_is_in_flight_and_goes_on_above_it(drill: Drill) -> None:
    old = [drill.old_sends(f"old-{nonce}", nonce) for nonce in range(3)]
    assert compared() == ("relayer-1: latest 0, pending 3: 3 of other programs", 1)
    assert drill.post("too early").status == 403
    drill.chain.block()
    assert compared() == ("relayer-1: latest 3, pending 3, next nonce 3: ready", 0)
    drill.resume()
    for number in range(3):
        drill.send(f"new-{number}")
    drill.finish()
    assert all(drill.chain.is_mined(each) for each in old)
    assert rows() == [(nonce, "request", "confirmed") for nonce in (3, 4, 5)]
    assert drill.recorded("old-0", "old-1", "old-2", "new-0", "new-1", "new-2") == [1] * 6
    assert drill.chain.count() == 6
    assert compared() == ("relayer-1: latest 6, pending 6, next nonce 6: ready", 0)


def test_a_service_that_still_sends_after_the_release_is_noticed(drill: Drill) -> None:
    drill.resume()
    drill.send("new-0")
    drill.engine.turn()
    # It does not know that its nonce is taken, and pays more.
    drill.old_sends("old-0", 0, **HIGH_PRICE)
    drill.finish()
    drill.old_sends("old-2", 2)
    drill.send("new-1")
    drill.claim()
    assert compared() == ("relayer-1: latest 2, pending 3: 1 of other programs", 1)
    assert list(Lane.objects.get().holds) == ["external"]
    drill.finish()
    kinds = ["external", "request", "external", "request"]
    assert rows() == [(nonce, kind, "confirmed") for nonce, kind in enumerate(kinds)]
    assert drill.recorded("old-0", "new-0", "old-2", "new-1") == [1] * 4
    events = Delivery.objects.filter(event__in=["relayer.nonce_used", "relayer.held", "relayer.released"])
    assert [delivery.event for delivery in events.order_by("pk")] == [
        "relayer.nonce_used",
        "relayer.held",
        "relayer.nonce_used",
        "relayer.released",
    ]
