"""A node that lies about who used a nonce or about how a transaction ended, alone and beside an honest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from django.db import transaction

from chain.nodes.failover import Node
from relayer_service.database.clock import database_now
from relayer_service.net.addresses import mask
from relayers.models import Relayer
from spending.models import SpendingPolicy
from tests.chain import faults
from tests.relayers import factories
from tests.relayers.factories import KEY
from tests.transactions import lies
from tests.transactions.hardhat import RECEIVER, LocalChain
from tests.transactions.limits import limit_relayer, used
from tests.transactions.lying_node import ANY, LyingNode, lying_node
from tests.transactions.settled import add_attempt, broadcast, lane, look, sent, short_depths, statuses
from tests.transactions.single_turns import take_turn
from transactions.limits.budgets import recharge
from transactions.limits.holders import payload_of
from transactions.models import Attempt, Lane, Transaction
from transactions.settlement import second_node

__all__ = ["short_depths"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("short_depths")]

Ask = Callable[..., None]
USED = "Its nonce 0 was used in a final block, by none of its attempts; "


@pytest.fixture
def liar(local_chain: LocalChain) -> Iterator[LyingNode]:
    with lying_node(local_chain.url) as found:
        yield found


@pytest.fixture
def ask_first(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Let nodes be asked in this order, instead of a random one."""

    def ask_first(*urls: str) -> None:
        def in_order(nodes: Sequence[Node], **options: Any) -> list[str]:
            return [url for url in urls if url in dict(nodes)]

        monkeypatch.setattr("chain.nodes.failover.in_order", in_order)

    return ask_first


def relayer(*urls: str) -> Relayer:
    return factories.relayer(network="hardhat", rpc_urls=nodes(*urls))


def nodes(*urls: str) -> list[dict[str, Any]]:
    return [{"url": url, "weight": 100} for url in urls]


def change_nodes(account: Lane, *urls: str) -> None:
    assert account.relayer is not None
    account.relayer.set_rpc_urls(nodes(*urls))
    account.relayer.save()


def invention(row: Transaction, **changes: Any) -> dict[str, Any]:
    """Return fields of a transaction with the row's sender and nonce that nobody signed."""
    return {"hash": "0x" + "fe" * 32, "value": "0x5"} | changes


def mine_and_look(chain: LocalChain, account: Lane, looks: int = 4) -> None:
    chain.mine(5)
    for _ in range(looks):
        look(account)


def search_again(account: Lane) -> None:
    """Let the pause after a search in vain be over."""
    Lane.objects.filter(pk=account.pk).update(search_again_at=database_now())
    account.refresh_from_db()


def received(chain: LocalChain) -> int:
    return int(chain.rpc("eth_getBalance", RECEIVER, "latest"), 16)


@pytest.mark.parametrize("others", ["none", "honest", "the same"])
def test_an_invented_transaction_never_has_a_payload_signed_again(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask, others: str
) -> None:
    urls = [liar.url, *{"none": [], "honest": [local_chain.url], "the same": [f"{liar.url}/again"]}[others]]
    ask_first(*urls)
    account = lane(local_chain, relayer=relayer(*urls))
    row = sent(account, 0)
    broadcast(local_chain, row)
    assert row.last_attempt is not None
    liar.lie(ANY, lies.hide_behind(row.last_attempt.hash, invention(row)))
    before = received(local_chain)
    mine_and_look(local_chain, account)
    search_again(account)
    look(account)
    take_turn(account)
    mine_and_look(local_chain, account, looks=1)
    assert (statuses(row), set(Attempt.objects.values_list("nonce", flat=True))) == (["submitted"], {0})
    assert row.status_reason == (
        f"{USED}it is reported to be 0x{'fe' * 32}, which has no signature of the account for this chain."
    )
    liar.be_honest()
    mine_and_look(local_chain, account)
    assert (statuses(row), received(local_chain) - before) == (["confirmed"], 1)


@pytest.mark.parametrize("silence", [lies.drop_request, lies.lag(20), lies.refuse("header not found")])
def test_a_row_is_queued_again_once_a_second_node_has_what_used_its_nonce(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask, silence: Any
) -> None:
    ask_first(local_chain.url, liar.url)
    account = lane(local_chain, relayer=relayer(local_chain.url, liar.url))
    row, above = sent(account, 0), sent(account, 1)
    foreign = local_chain.send_from(KEY, 0, value=5)
    broadcast(local_chain, above)
    liar.lie(ANY, silence)
    mine_and_look(local_chain, account)
    assert statuses(row, above) == ["submitted", "confirmed"]
    reason = f"{USED}before it is queued again, a second node must have the transaction that used it, too: {foreign}."
    version = row.version
    # The reason stays while new blocks are searched.
    mine_and_look(local_chain, account)
    row.refresh_from_db()
    assert (row.status_reason, row.version) == (reason, version)
    liar.be_honest()
    search_again(account)
    look(account)
    assert (statuses(row), row.corroborated_at is not None) == (["pending"], True)


def test_a_second_url_without_weight_is_no_second_node(local_chain: LocalChain, liar: LyingNode) -> None:
    nodes = [{"url": local_chain.url, "weight": 100}, {"url": liar.url, "weight": 0}]
    account = lane(local_chain, relayer=factories.relayer(network="hardhat", rpc_urls=nodes))
    row = sent(account, 0)
    local_chain.send_from(KEY, 0, value=5)
    mine_and_look(local_chain, account)
    assert (statuses(row), row.corroborated_at) == (["pending"], None)
    assert liar.server.requests == []


def canceled(chain: LocalChain, account: Lane, mined: str) -> tuple[Transaction, Attempt, Attempt]:
    """Return a row with a no-op beside its payload, one of which is broadcast."""
    row = sent(account, 0, requested_action="cancel", action_reason="Canceled on request.")
    payload = row.last_attempt
    assert payload is not None
    noop = add_attempt(row, 0, "cancel", maxFeePerGas=20 * 10**9)
    chain.send_raw(bytes((noop if mined == "noop" else payload).raw))
    return row, payload, noop


@pytest.mark.parametrize("liar_is_removed", [True, False])
def test_nodes_that_contradict_each_other_hold_a_row(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask, caplog: pytest.LogCaptureFixture, liar_is_removed: bool
) -> None:
    ask_first(liar.url, local_chain.url)
    account = lane(local_chain, relayer=relayer(liar.url, local_chain.url))
    row, payload, noop = canceled(local_chain, account, "payload")
    liar.lie(ANY, lies.hide_behind(payload.hash, {"hash": noop.hash}))
    mine_and_look(local_chain, account)
    answers = sorted(
        [
            f"{mask(liar.url)} reports {noop.hash} in block 1 with status 1",
            f"{mask(local_chain.url)} reports {payload.hash} in block 1 with status 1",
        ]
    )
    expected = f"Nodes contradict each other: {'; '.join(answers)}. It becomes final when they agree."
    assert (statuses(row), row.status_reason) == (["mined"], expected)
    assert caplog.text.count("Nodes contradict each other") == 1
    if liar_is_removed:
        # Nor does silence decide, once they have contradicted each other.
        with faults.refusing() as silent:
            ask_first(liar.url, silent)
            change_nodes(account, liar.url, silent)
            mine_and_look(local_chain, account)
        assert (statuses(row), row.status_reason) == (["mined"], expected)
        ask_first(local_chain.url)
        change_nodes(account, local_chain.url)
    else:
        liar.be_honest()
    mine_and_look(local_chain, account)
    assert (statuses(row), row.status_reason) == (["confirmed"], "The cancellation came too late.")


def test_one_request_asks_a_second_node_about_all_rows_of_a_look(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask
) -> None:
    ask_first(local_chain.url, liar.url)
    account = lane(local_chain, relayer=relayer(local_chain.url, liar.url))
    executed, *replaced = [sent(account, nonce) for nonce in range(3)]
    for row in replaced:
        row.requested_action = "expire"
        add_attempt(row, row.nonce or 0, "expire", maxFeePerGas=20 * 10**9)
    broadcast(local_chain, executed, *replaced)
    mine_and_look(local_chain, account)
    assert statuses(executed, *replaced) == ["confirmed", "expired", "expired"]
    (calls,) = liar.requests("eth_getTransactionReceipt")
    asked = {call["params"][0] for call in calls if call["method"] == "eth_getTransactionReceipt"}
    assert asked == {each.hash for row in replaced for each in row.attempts.all()}
    assert [row.corroborated_at is not None for row in (executed, *replaced)] == [False, True, True]


def charged(account: Lane, row: Transaction) -> SpendingPolicy:
    assert account.relayer is not None
    chosen = limit_relayer(account.relayer, max_value_per_day="10")
    row.refresh_from_db()
    with transaction.atomic():
        recharge(row, payload_of(row), database_now())
    assert used(chosen) == 1
    return chosen


@pytest.mark.parametrize("has_second_node", [False, True])
def test_a_charge_is_released_only_if_a_second_node_has_the_no_op(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask, has_second_node: bool
) -> None:
    urls = [local_chain.url, liar.url] if has_second_node else [local_chain.url]
    ask_first(*urls)
    account = lane(local_chain, relayer=relayer(*urls))
    row, _, _ = canceled(local_chain, account, "noop")
    chosen = charged(account, row)
    mine_and_look(local_chain, account)
    assert (statuses(row), used(chosen)) == (["canceled"], 0 if has_second_node else 1)
    # Nor does asking the same node again.
    second_node.release_charges()
    assert used(chosen) == (0 if has_second_node else 1)


def test_a_charge_is_released_later_by_a_second_node_that_was_silent(
    local_chain: LocalChain, liar: LyingNode, ask_first: Ask
) -> None:
    ask_first(local_chain.url, liar.url)
    account = lane(local_chain, relayer=relayer(local_chain.url, liar.url))
    row, _, _ = canceled(local_chain, account, "noop")
    chosen = charged(account, row)
    liar.lie(ANY, lies.drop_request)
    mine_and_look(local_chain, account)
    second_node.release_charges()
    assert (statuses(row), used(chosen), row.corroborated_at) == (["canceled"], 1, None)
    # In another block, or with another result, it is not the same.
    for fields in ({"blockHash": "0x" + "ee" * 32}, {"status": "0x0"}):
        liar.lie(ANY, lies.change_receipts(**fields))
        second_node.release_charges()
        assert used(chosen) == 1
    liar.be_honest()
    version = row.version
    second_node.release_charges()
    assert (statuses(row), used(chosen), row.version) == (["canceled"], 0, version)
    assert row.corroborated_at is not None
    liar.server.requests.clear()
    second_node.release_charges()
    assert liar.server.requests == []
