"""The engine of a worker, with its event loop and threads."""

from __future__ import annotations

from typing import Any

import pytest

from signers.models import Signer
from tests.concurrency import wait_until
from tests.transactions import hanging_signer
from tests.transactions.accounts import Sender, ledger_id, sender
from tests.transactions.mempool import MempoolChain
from transactions.lanes import engine as engine_module
from transactions.lanes.engine import Engine
from transactions.models import Status, Transaction

pytestmark = pytest.mark.one_engine

GOOD = 50


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_a_hung_signer_holds_up_none_of_fifty_others(
    mempool: MempoolChain, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EXTENSIONS = ["transactions"]
    # One signer can occupy two of them.
    monkeypatch.setattr(engine_module, "SIGNING_THREADS", 8)
    settings.SIGNER_BACKENDS = settings.SIGNER_BACKENDS | {
        "provider_c": "tests.transactions.hanging_signer.Hanging",
    }
    hanging_signer.answers.clear()
    hung = sender(mempool, mempool.ledger, "hung")
    Signer.objects.filter(pk=hung.relayer.signer_id).update(type="provider_c")
    for number in range(16):
        hung.send(ledger_id(f"hung {number}"))
    senders: list[Sender] = [sender(mempool, mempool.ledger, f"good {number}") for number in range(GOOD)]
    for each in senders:
        each.send(ledger_id(each.relayer.identifier))
    submitted = Transaction.objects.filter(status=Status.SUBMITTED)
    engine = Engine()

    try:
        engine.sweep()
        wait_until(lambda: submitted.count() == GOOD)
        assert not submitted.filter(relayer=hung.relayer).exists()
        hanging_signer.answers.set()
        wait_until(lambda: submitted.count() == GOOD + 16)
    finally:
        hanging_signer.answers.set()
        engine.stop(10)
