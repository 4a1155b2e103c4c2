"""The search for who used a nonce goes on where it ended, and starts over after a pause, never at block 0."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chain.networks import networks
from relayer_service.database.clock import database_now
from tests.relayers import factories
from tests.relayers.factories import ADDRESS
from tests.transactions.fake_chain import FakeChain, serve
from tests.transactions.settled import lane, sent, statuses
from transactions.models import Lane, Transaction
from transactions.settlement.nonces.nonce_owner import SEARCH_AGAIN, identify
from transactions.settlement.reading import Block, ChainView, Counts

pytestmark = pytest.mark.django_db

NETWORK = replace(networks()["hardhat"], finality_depth=10)
HEAD = 1_000


@pytest.fixture
def account() -> Lane:
    nodes: Any = None
    return lane(nodes, relayer=factories.relayer(network="hardhat"), search_block=900)


def view(final: int, counted_at: int) -> ChainView:
    counts = Counts(1, 1, 1, counted_at)
    return ChainView("http://node", Block(HEAD, f"0x{HEAD:064x}"), final, counts={ADDRESS: counts})


def run(
    chain: FakeChain, account: Lane, final: int = 990, counted_at: int | None = None, second: FakeChain | None = None
) -> bool:
    with serve(chain, NETWORK) as reader, serve(second or chain, NETWORK) as other:
        reader.second = other if second else None
        changed = identify(reader, account, view(final, counted_at or final))
    account.refresh_from_db()
    return changed


def externals() -> list[int | None]:
    return list(Transaction.objects.filter(kind="external").values_list("nonce", flat=True))


def test_a_search_in_vain_reads_nothing_again_until_blocks_are_new(account: Lane) -> None:
    chain = FakeChain(HEAD, [950], is_hiding=True)
    assert run(chain, account) is False
    assert (account.search_block, account.searched_block, account.searches) == (900, 990, 1)
    assert account.search_again_at is not None
    chain.asked.clear()
    assert run(chain, account) is False
    assert chain.asked == []
    # Nor from a node that is behind.
    run(chain, account, final=988)
    assert (chain.asked, account.searched_block) == ([], 990)
    chain.scanned.clear()
    run(chain, account, final=992)
    assert (chain.scanned, account.searched_block, account.searches) == ([991, 992], 992, 1)


def test_a_search_in_vain_starts_over_at_its_first_block_later(account: Lane) -> None:
    chain = FakeChain(HEAD, [950], is_hiding=True)
    run(chain, account)
    Lane.objects.update(search_again_at=database_now())
    account.refresh_from_db()
    run(chain, account)
    # The pause doubles.
    assert account.search_again_at is not None
    assert account.search_again_at > database_now() + SEARCH_AGAIN + timedelta(seconds=30)
    assert (account.searches, account.search_block) == (2, 900)
    chain.is_hiding, chain.scanned = False, []
    Lane.objects.update(search_again_at=database_now())
    account.refresh_from_db()
    assert run(chain, account) is True
    assert (externals(), min(chain.scanned) > 900) == ([0], True)
    assert (account.search_block, account.searched_block, account.searches) == (949, None, 0)
    assert account.search_again_at is None


def test_a_long_search_goes_on_where_the_last_look_ended(account: Lane) -> None:
    chain = FakeChain(HEAD, [925], state_blocks=0)
    run(chain, account)
    assert (account.search_block, account.searched_block, account.search_again_at) == (900, 916, None)
    assert run(chain, account) is True
    assert (externals(), chain.scanned) == ([0], list(range(901, 929)))


def test_a_count_that_is_newer_than_its_block_is_found(account: Lane) -> None:
    """The node had a new block between the two answers: the nonce was used in that one."""
    chain = FakeChain(HEAD, [981], state_blocks=0)
    Lane.objects.update(search_block=975)
    account.refresh_from_db()
    assert run(chain, account, final=981, counted_at=980) is True
    assert (externals(), account.next_nonce, account.searches) == ([0], 1, 0)


# A deposit of the OP stack, and fields that nobody signed.
UNPROVEN: list[dict[str, Any]] = [{"type": "0x7e"}, {"value": "0x7"}]


@pytest.mark.parametrize("changes", UNPROVEN)
def test_a_use_that_no_signature_proves_needs_a_second_node(account: Lane, changes: dict[str, Any]) -> None:
    chain, other = FakeChain(HEAD, [950], changes=changes), FakeChain(HEAD, [951], changes=changes)
    assert (run(chain, account), externals()) == (False, [])
    search_again(account)
    # In another block, it is not the same.
    assert (run(chain, account, second=other), externals()) == (False, [])
    search_again(account)
    assert (run(chain, account, second=chain), externals(), account.next_nonce) == (True, [0], 1)


@pytest.mark.parametrize("has_row", [False, True])
def test_a_use_that_staff_accepted_takes_no_nonce_from_a_row(account: Lane, has_row: bool) -> None:
    chain = FakeChain(HEAD, [950], changes=UNPROVEN[0])
    Lane.objects.update(accepted_below=1)
    account.refresh_from_db()
    rows = [sent(account, 0, to="0x" + "12" * 20)] if has_row else []
    assert (run(chain, account), externals()) == ((False, []) if has_row else (True, [0]))
    assert statuses(*rows) == ["submitted"] * has_row


def test_a_proven_use_in_a_later_block_is_found_behind_an_unproven_one(account: Lane) -> None:
    chain = FakeChain(HEAD, [905], state_blocks=0)
    honest = chain.block

    def block(number: int, *, full: bool) -> dict[str, Any] | None:
        found = honest(number, full=full)
        if found and full and number == 903:
            found["transactions"] = [chain.transaction(0) | {"type": "0x64", "hash": "0x" + "ab" * 32}]
        return found

    chain.block = block  # type: ignore[method-assign]  # of this chain alone
    assert (run(chain, account), externals()) == (True, [0])
    assert Transaction.objects.get(kind="external").block_number == 905


def search_again(account: Lane) -> None:
    Lane.objects.update(search_again_at=database_now())
    account.refresh_from_db()
