"""One look at a chain: what a single node reports about blocks, accounts and receipts, so that it fits together."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from eth_utils.address import is_address, to_checksum_address

from chain.errors import NodesUnreachable
from chain.networks import Network
from chain.nodes import attempts, failover, head
from chain.nodes.answers import ChainError, Fault, member_quantity, quantity
from chain.nodes.attempts import Call
from chain.nodes.failover import Node
from chain.nodes.plausibility import MAX_BLOCKS_BEHIND, at_most
from relayer_service.database.clock import shared_time

# Accounts and receipts in one batch: nodes limit the calls in a batch.
ACCOUNTS_IN_BATCH = 50
RECEIPTS_IN_BATCH = 100
# The limit of the columns.
MAX_NUMBER = 2**63 - 1
FINALIZED = "finalized"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Block:
    number: int
    hash: str


@dataclass(frozen=True)
class Counts:
    """The transaction counts of an account; None if the node did not report them."""

    latest: int | None = None
    pending: int | None = None
    # In a final block.
    final: int | None = None
    final_block: int | None = None


@dataclass(frozen=True)
class Receipt:
    hash: str
    block: Block
    succeeded: bool
    gas_used: int | None = None
    effective_gas_price: int | None = None
    contract_address: str = ""
    # On top of gas, where the network charges for L1 apart.
    l1_fee: int | None = None


@dataclass(frozen=True)
class ChainView:
    """What one node reported. A number without a hash, or a transaction without a receipt, was not reported."""

    url: str
    head: Block
    # The highest final block.
    final_number: int | None = None
    genesis_hash: str = ""
    hashes: Mapping[int, str] = field(default_factory=dict)
    counts: Mapping[str, Counts] = field(default_factory=dict)
    receipts: Mapping[str, Receipt] = field(default_factory=dict)
    # What a second node reported of some transactions; None if there is no other, or none was asked.
    second_url: str = ""
    second: Mapping[str, Receipt] | None = None
    # Whether the head is the node's, and not an earlier one instead of it.
    is_believed: bool = True
    # When the head block was mined, in seconds since the epoch.
    head_time: int | None = None

    def is_corroborated(self, receipt: Receipt) -> bool:
        """Return whether the second node has the transaction in the same block, with the same success."""
        found = (self.second or {}).get(receipt.hash)
        return found is not None and (found.block, found.succeeded) == (receipt.block, receipt.succeeded)

    def at_earlier_head(self, number: int) -> ChainView:
        """Return what is left if the head is not believed: nothing is final, and counts are not stored."""
        counts = {address: Counts(each.latest, each.pending) for address, each in self.counts.items()}
        return replace(self, head=Block(number, ""), final_number=None, counts=counts, is_believed=False)

    def is_final(self, number: int) -> bool:
        return self.final_number is not None and number <= self.final_number


@dataclass(frozen=True)
class Question:
    """What to read: accounts by address, headers by number, and what is known of the chain."""

    addresses: Sequence[str]
    numbers: Sequence[int] = ()
    # The highest head that any node reported; None if that was too long ago to call a node behind.
    highest_head: int | None = None
    last_head: int | None = None
    # Whether to read block 0, and its known hash.
    needs_genesis: bool = False
    genesis_hash: str = ""
    # The highest head that one node is believed; None if there is no bound.
    limit: int | None = None


class NodeReader:
    """Reads from one node: a second batch must describe the chain that the first one described."""

    def __init__(self, url: str, network: Network, second: NodeReader | None = None) -> None:
        # `second` is another node of the relayer, if it has one, to ask what this one alone reports.
        self.url, self.network, self.second = url, network, second

    def call(self, calls: Sequence[Call], check: failover.Check = lambda found: None) -> list[Any]:
        """Return the answers; raise `NodesUnreachable` if the node does not answer or fails the check."""
        return failover.call([(self.url, 1)], calls, self.network.chain_id, check)

    def view(self, question: Question) -> ChainView:
        """Return blocks and counts."""
        final_tag, counted_at = self._final_tag(question.last_head)
        calls = [head.CALL, *([_header(FINALIZED)] if self.network.finality_depth is None else [])]
        calls += [_header(0)] if question.needs_genesis else []
        numbers = {*question.numbers} | ({counted_at} if counted_at is not None else set())
        calls += [_header(number) for number in sorted(numbers)]
        first, *others = _parts(question.addresses, ACCOUNTS_IN_BATCH) or [[]]
        counting = _count_calls(first, final_tag)
        found = iter(self.call([*calls, *counting], lambda answers: self._check(answers, question)))
        newest_answer = next(found)
        newest = _block(newest_answer)
        assert newest is not None, "checked"
        blocks: list[Block | None] = [newest]
        if self.network.finality_depth is None:
            blocks.append(finalized := _block(next(found)))
            final = counted_at = finalized.number if finalized and finalized.number <= newest.number else None
        else:
            depth = newest.number - self.network.finality_depth
            final = depth if depth >= 0 else None
        genesis = _block(next(found)) if question.needs_genesis else None
        blocks += [_block(next(found)) for _ in numbers]
        if final is None or counted_at is None or counted_at > final:
            # This node is behind: for it, the block that was counted at is not final.
            counted_at = None
        counts = _read_counts(first, found, final_tag, counted_at)
        for addresses in others:
            answers = iter(self.call(_count_calls(addresses, final_tag)))
            counts |= _read_counts(addresses, answers, final_tag, counted_at)
        hashes = {block.number: block.hash for block in blocks if block}
        head_time = member_quantity(newest_answer, "timestamp")
        return ChainView(self.url, newest, final, genesis.hash if genesis else "", hashes, counts, head_time=head_time)

    def _final_tag(self, last_head: int | None) -> tuple[str, int | None]:
        """Return the block to count at, for a batch that is sent before the head is known."""
        depth = self.network.finality_depth
        if depth is None:
            return FINALIZED, None
        number = None if last_head is None or last_head < depth else last_head - depth
        return ("" if number is None else hex(number)), number

    def _check(self, answers: list[Any], question: Question) -> None:
        newest = head.read(answers[0], self.network, shared_time())
        if _block(answers[0]) is None:
            raise Fault(head.NO_HEAD)
        if question.needs_genesis and question.genesis_hash:
            position = 1 if self.network.finality_depth is not None else 2
            genesis = _block(answers[position])
            if genesis is not None and genesis.hash != question.genesis_hash:
                # Another chain, whose heights say nothing.
                return
        if question.highest_head is not None and newest.number < question.highest_head - MAX_BLOCKS_BEHIND:
            # Not a failure of the node: the one that reported the highest head may be wrong.
            raise Fault(f"is {question.highest_head - newest.number} blocks behind", is_client_error=True)

    def hashes(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the hashes of the blocks that the node has."""
        found = map(_block, self.call([_header(number) for number in numbers]))
        return {block.number: block.hash for block in found if block}

    def receipts(self, hashes: Iterable[str], highest_block: int = MAX_NUMBER) -> dict[str, Receipt]:
        """Return the receipts that the node has, up to a block. A missing one proves nothing."""
        found = {}
        for part in _parts(list(hashes), RECEIPTS_IN_BATCH):
            calls = [Call("eth_getTransactionReceipt", [each], is_optional=True) for each in part]
            for expected, answer in zip(part, self.call(calls), strict=True):
                receipt = read_receipt(expected, answer)
                if receipt is not None and receipt.block.number <= highest_block:
                    found[expected] = receipt
        return found


def readers(relayer_nodes: Sequence[Node], network: Network) -> Iterator[NodeReader]:
    """Yield a reader of each node in the order to try them, until the time for all is used up."""
    deadline = time.monotonic() + attempts.DEADLINE_SECONDS
    urls = failover.in_order(relayer_nodes, chain_id=network.chain_id)
    if not urls:
        raise NodesUnreachable("no RPC URL is configured")
    for position, url in enumerate(urls):
        if position and time.monotonic() >= deadline:
            return
        yield NodeReader(url, network, next((NodeReader(each, network) for each in urls if each != url), None))


def read_receipt(expected: str, answer: Any) -> Receipt | None:
    """Return a receipt, or None if it is missing, of another transaction or of one that is in no block."""
    number, status = (_bounded(member_quantity(answer, name)) for name in ("blockNumber", "status"))
    if number is None or status not in {0, 1}:
        return None
    block_hash, found, contract = (answer.get(name) for name in ("blockHash", "transactionHash", "contractAddress"))
    # Hexadecimal: not every text can be stored.
    if quantity(block_hash) is None or str(found).lower() != expected:
        return None
    return Receipt(
        expected,
        Block(number, str(block_hash).lower()),
        status == 1,
        _bounded(member_quantity(answer, "gasUsed")),
        member_quantity(answer, "effectiveGasPrice"),
        to_checksum_address(contract) if is_address(contract) else "",
        member_quantity(answer, "l1Fee"),
    )


def _header(block: str | int) -> Call:
    number = hex(block) if isinstance(block, int) else block
    return Call("eth_getBlockByNumber", [number, False], is_optional=True)


def _block(answer: Any) -> Block | None:
    number = _bounded(member_quantity(answer, "number"))
    value = answer.get("hash") if isinstance(answer, dict) else None
    return Block(number, str(value).lower()) if number is not None and quantity(value) is not None else None


def _count_calls(addresses: Sequence[str], final_tag: str) -> list[Call]:
    tags = {"latest": False, "pending": True} | ({final_tag: True} if final_tag else {})
    return [
        Call("eth_getTransactionCount", [address, tag], is_optional=is_optional)
        for address in addresses
        for tag, is_optional in tags.items()
    ]


def _read_counts(
    addresses: Sequence[str], found: Iterator[Any], final_tag: str, final_block: int | None
) -> dict[str, Counts]:
    def count() -> int | None:
        answer = next(found)
        return None if isinstance(answer, ChainError) else _bounded(quantity(answer))

    def counts() -> Counts:
        latest, pending = count(), count()
        final = at_most(latest, count() if final_tag else None)
        return Counts(latest, pending, *((None, None) if None in {final, final_block} else (final, final_block)))

    return {address: counts() for address in addresses}


def _bounded(number: int | None) -> int | None:
    return number if number is not None and number <= MAX_NUMBER else None


def _parts(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
