"""A database that has lost its last commits: nothing is executed twice, and what is on the chain is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from tests.relayer_service.api.test_throttling import shared_cache
from tests.transactions import accounts
from tests.transactions.accounts import ledger_id
from tests.transactions.backups import Backup
from tests.transactions.engines import end_lease, is_final, let_time_pass
from tests.transactions.lab import Lab
from tests.transactions.standby import failed_over, standby
from transactions.metrics import LaneCollector
from transactions.models import Attempt, Status
from transactions.records.reasons import status_reason
from transactions.settlement.nonces.database_identity import database_identity

pytestmark = pytest.mark.django_db(transaction=True)


def restore(lab: Lab, backup: Backup) -> None:
    """Restore a backup as the operations guide says: lanes are held before the first worker starts."""
    backup.restore()
    call_command("hold_lanes", restored=True, verbosity=0)
    lab.restart()


@pytest.fixture(params=["file", "redis"])
def witness(request: pytest.FixtureRequest, settings: Any, tmp_path: Path) -> str:
    """The witness that the service has: a file alone, or Redis alone."""
    settings.DATA_DIR, settings.REDIS_URL = tmp_path, ""
    if request.param == "redis":
        # Nothing can be written there.
        settings.DATA_DIR = tmp_path / "missing"
        settings.REDIS_URL = request.getfixturevalue("redis_url")
        settings.CACHES = shared_cache(settings.REDIS_URL)
    return str(request.param)


def test_a_restore_that_nobody_announces_pays_nothing_twice(lab: Lab, witness: str) -> None:
    names = [f"payment-{number}" for number in range(60 if witness == "file" else 12)]
    middle = len(names) * 2 // 3
    for name in names[:middle]:
        lab.send(name, key=name)
    lab.turn()
    lab.block()
    backup = Backup()
    for name in names[middle:]:
        lab.send(name, key=name)
    lab.finish()

    backup.restore()
    lab.restart()
    signed = Attempt.objects.count()
    lab.turn()
    assert (list(lab.lane.holds), Attempt.objects.count()) == (["lost_commits"], signed)
    run_until_free(lab)
    # The clients do not know which of them are lost.
    for name in names:
        lab.send(name, key=name)
    run_for_a_while(lab)

    assert [lab.chain.recorded(lab.chain.ledger, ledger_id(name)) for name in names] == [1] * len(names)


def test_what_was_sent_after_a_backup_is_adopted_by_the_row_it_belongs_to(lab: Lab) -> None:
    lab.send("before")
    lab.finish()
    for number in range(5):
        lab.send(f"request {number}")
    backup = Backup()
    lab.turn()
    lab.block(3)

    restore(lab, backup)
    run_until_free(lab)

    assert lab.oracle.violations_at_rest() == []
    assert lab.statuses() == [(nonce, Status.CONFIRMED) for nonce in range(6)]


def test_identical_payments_around_a_restore_are_paid_once_each(lab: Lab) -> None:
    """One is in the backup and unsent, the other was accepted after it, and both are on the chain."""
    lab.send("before")
    lab.finish()
    first = lab.send("same", key="first")
    backup = Backup()
    lab.send("same", key="second")
    lab.turn()
    lab.block(3)

    restore(lab, backup)
    # The client of the second one does not find it, and requests it again with its key.
    second = lab.send("same", key="second")
    run_until_free(lab)

    first.refresh_from_db()
    second.refresh_from_db()
    assert [(row.nonce, row.status) for row in (first, second)] == [(1, Status.CONFIRMED), (2, Status.CONFIRMED)]
    assert lab.chain.recorded(lab.chain.ledger, ledger_id("same")) == 2


def test_a_payment_that_was_lost_is_not_paid_again_once_its_lane_is_free(lab: Lab) -> None:
    """A client that retries after the lane was released cannot know that its payment is on the chain."""
    lab.send("before")
    lab.finish()
    backup = Backup()
    lab.send("lost", key="lost")
    lab.turn()
    lab.block(3)
    restore(lab, backup)
    run_until_free(lab)

    retried = lab.send("lost", key="lost")
    run_for_a_while(lab)

    retried.refresh_from_db()
    assert (retried.nonce, retried.status) == (None, Status.PENDING)
    assert lab.chain.recorded(lab.chain.ledger, ledger_id("lost")) == 1


def run_for_a_while(lab: Lab) -> None:
    for _ in range(5):
        lab.turn()
        lab.block()
        let_time_pass(120)
        lab.restart()


def test_an_empty_account_waits_for_the_funds_that_end_its_hold(lab: Lab) -> None:
    lab.send("before")
    lab.finish()
    backup = Backup()
    restore(lab, backup)
    waiting = lab.send("waiting")
    lab.chain.set_balance(lab.lane.address, 0)
    for _ in range(20):
        lab.turn()
        lab.block()

    waiting.refresh_from_db()
    reason = status_reason(waiting, lab.lane)
    assert reason.startswith("Waiting for funds since ")
    assert reason.endswith(" ETH missing to close 32 nonces after lost commits.")
    states = {each.labels["state"]: each.value for each in next(iter(LaneCollector().collect())).samples}
    assert (states["funds"], states["held"], Attempt.objects.filter(purpose="gap").count()) == (1, 0, 0)

    lab.chain.set_balance(lab.lane.address, accounts.FUNDS)
    run_until_free(lab)
    assert lab.statuses() == [(0, Status.CONFIRMED), (33, Status.CONFIRMED)]


def run_until_free(lab: Lab) -> None:
    """Go on until the lane has identified every nonce and is released."""
    for _ in range(100):
        lab.turn()
        lab.block()
        let_time_pass(20)
        lab.restart()
        if not lab.lane.holds and is_final():
            return
    raise AssertionError(f"the lane is still held: {lab.lane.holds}, {lab.statuses()}")


@pytest.mark.postgresql
@pytest.mark.long
def test_a_promoted_standby_without_the_last_commits_executes_nothing_twice(lab: Lab) -> None:
    """Nobody announces it: the lane finds itself on another timeline."""
    lab.send("before")
    lab.finish()
    lab.send("replicated")
    before = database_identity()
    with standby() as copy:
        lab.send("lost")
        lab.turn()
        lab.block(3)
        copy.promote()
        with failed_over(copy):
            lab.engine.die()
            end_lease(lab.lane.pk)
            lost = [one for one, name in lab.oracle.accepted.items() if name == ledger_id("lost")]
            del lab.oracle.accepted[lost[0]]
            assert database_identity() != before
            run_until_free(lab)

            assert lab.statuses() == [(0, Status.CONFIRMED), (1, Status.CONFIRMED)]
            assert lab.oracle.violations_at_rest() == []
            retried = lab.send("lost")
            run_for_a_while(lab)
            retried.refresh_from_db()
            assert (retried.nonce, retried.status) == (None, Status.PENDING)
            assert lab.chain.recorded(lab.chain.ledger, ledger_id("lost")) == 1
