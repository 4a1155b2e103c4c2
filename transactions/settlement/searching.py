"""Finding the transaction that used a nonce of an account, in blocks that are final."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eth_utils.address import is_address, to_checksum_address

from chain.nodes.answers import member_quantity, quantity
from chain.nodes.attempts import Call
from chain.transactions.proof import recover
from transactions.settlement.reading import Block, NodeReader

# Counts read in one batch: each round divides the range of blocks by one more than that.
POINTS = 15
# The work of one search; the next one goes on where it ended.
MAX_ROUNDS = 8
BLOCKS_IN_BATCH = 4
MAX_SCANNED = 16
HEX = re.compile(r"0x([0-9a-fA-F]{2})*")


@dataclass(frozen=True)
class UsedNonce:
    """A transaction of the account, in a block."""

    nonce: int
    hash: str
    block: Block
    to: str
    value: int
    data: bytes
    gas_limit: int
    # By the names of the columns of an attempt.
    prices: Mapping[str, str]
    # Whether the account signed it for this chain. Otherwise it is one node's word.
    is_proven: bool


@dataclass(frozen=True)
class Search:
    """The transaction, if it was found, and the block up to which it is not."""

    found: UsedNonce | None
    searched_block: int


def search(reader: NodeReader, address: str, nonce: int, low: int, high: int) -> Search:
    """Search the blocks above `low` up to `high`, which is final; the account's count rose above the nonce there.

    Counts at earlier blocks narrow the range, where the node still has that state; then blocks are read.
    """
    narrowed_high = high
    for _ in range(MAX_ROUNDS):
        if narrowed_high - low <= BLOCKS_IN_BATCH:
            break
        narrowed = _narrow(reader, address, nonce, low, narrowed_high)
        if narrowed == (low, narrowed_high):
            break
        low, narrowed_high = narrowed
    end, unproven = min(narrowed_high, low + MAX_SCANNED), None
    for start in range(low + 1, end + 1, BLOCKS_IN_BATCH):
        numbers = range(start, min(start + BLOCKS_IN_BATCH, end + 1))
        calls = [Call("eth_getBlockByNumber", [hex(number), True], is_optional=True) for number in numbers]
        for number, answer in zip(numbers, reader.call(calls), strict=True):
            if member_quantity(answer, "number") != number:
                # The node does not have the block: nothing is known of it and of those above.
                return Search(unproven, number - 1)
            found = _find(answer, address, nonce, reader.network.chain_id)
            if found is not None and found.is_proven:
                return Search(found, number - 1)
            unproven = unproven or found
    # By the counts it is in no block above the narrowed range either.
    return Search(unproven, high if end == narrowed_high else end)


def _narrow(reader: NodeReader, address: str, nonce: int, low: int, high: int) -> tuple[int, int]:
    """Return the part of the range in which the count rises above the nonce, as far as the node has counts."""
    points = sorted({low + (high - low) * part // (POINTS + 1) for part in range(1, POINTS + 1)} - {low, high})
    calls = [Call("eth_getTransactionCount", [address, hex(point)], is_optional=True) for point in points]
    counts = [(point, quantity(answer)) for point, answer in zip(points, reader.call(calls), strict=True)]
    above = [point for point, count in counts if count is not None and count > nonce]
    high = min(above, default=high)
    below = [point for point, count in counts if count is not None and count <= nonce and point < high]
    return max(below, default=low), high


def _find(answer: Any, address: str, nonce: int, chain_id: int) -> UsedNonce | None:
    block, entries = Block(int(answer["number"], 16), str(answer.get("hash")).lower()), answer.get("transactions")
    for entry in entries if isinstance(entries, list) else ():
        if member_quantity(entry, "nonce") == nonce and str(entry.get("from")).lower() == address.lower():
            signed = recover(entry)
            # The same key may have signed with this nonce for another chain.
            signer = signed and (signed.sender, signed.chain_id)
            return _read(entry, block, is_proven=signer == (to_checksum_address(address), chain_id))
    return None


def _read(entry: dict[str, Any], block: Block, *, is_proven: bool) -> UsedNonce | None:
    nonce, value, gas = (member_quantity(entry, name) for name in ("nonce", "value", "gas"))
    data, receiver, transaction_hash = (entry.get(name) for name in ("input", "to", "hash"))
    if nonce is None or value is None or gas is None or quantity(transaction_hash) is None:
        return None
    if not isinstance(data, str) or not HEX.fullmatch(data):
        return None
    names = {"max_fee_text": "maxFeePerGas", "max_priority_fee_text": "maxPriorityFeePerGas"}
    if member_quantity(entry, "maxFeePerGas") is None:
        names = {"gas_price_text": "gasPrice"}
    prices = {column: str(member_quantity(entry, name) or 0) for column, name in names.items()}
    to = to_checksum_address(receiver) if is_address(receiver) else ""
    payload = to, value, bytes.fromhex(data[2:])
    return UsedNonce(nonce, str(transaction_hash).lower(), block, *payload, gas, prices, is_proven)
