"""The account of a lane against counts of one node that are wrong."""

from __future__ import annotations

import pytest
from django.db import ProgrammingError, connection, transaction

from relayer_service.database.clock import database_now
from tests.relayers.factories import relayer
from tests.transactions import factories
from transactions.models import Lane
from transactions.settlement.judging import Watched
from transactions.settlement.nonces import accounts
from transactions.settlement.nonces.database_identity import database_identity
from transactions.settlement.reading import Block, ChainView, Counts

pytestmark = pytest.mark.django_db


def review(lane: Lane, *watched: Watched, count: int) -> None:
    """Review a lane by a node that reports this count in the head block and in a final one."""
    counts = {lane.address: Counts(count, count, count, 50)}
    view = ChainView("http://node", Block(60, f"0x{60:064x}"), 50, counts=counts)
    accounts.review(lane, watched, view, database_identity(), database_now(), is_explained=True)


def test_a_later_count_lowers_a_seal_that_was_too_high() -> None:
    held = {"lost_commits": {"since": "2026-11-17T12:00:00Z", "identity": database_identity(), "block": 1}}
    columns = {"next_nonce": 2, "seal_below": 1_000_032, "window": 4, "holds": held, "held_since": database_now()}
    account = factories.lane(relayer(), **columns)
    review(account, count=2)
    # Two windows above.
    assert account.seal_below == 10
    account.next_nonce = 6
    review(account, count=4)
    assert account.seal_below == 10


@pytest.mark.parametrize(("count", "final", "gap"), [(9, 10, None), (9, 9, 60), (10, 10, 60), (12, 10, None)])
def test_a_nonce_below_the_first_one_is_a_gap_only_if_its_use_was_not_final(
    count: int, final: int, gap: int | None
) -> None:
    """Another program's transaction that was there at first contact can be gone after a reorg."""
    account = factories.lane(relayer(), first_nonce=10, next_nonce=13, final_nonce=final, final_block=51)
    row = factories.transaction(account, nonce=12, status="sent")
    review(account, Watched(row, [factories.attempt(row)]), count=count)
    assert account.gap_block == gap


@pytest.mark.postgresql
def test_a_server_that_no_longer_reveals_its_identity_aborts_one_transaction() -> None:
    assert database_identity()
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE without_identity")
        cursor.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
        cursor.execute("SET LOCAL ROLE without_identity")
    with pytest.raises(ProgrammingError), transaction.atomic():
        database_identity()
    with transaction.atomic():
        assert (database_identity(), database_now() is None) == ("", False)
