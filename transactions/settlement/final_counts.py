"""Counts in final blocks, from nodes that no longer have that state: those that were read when the blocks were new."""

from collections import deque
from dataclasses import replace
from threading import Lock

from transactions.settlement.reading import Block, ChainView, Counts, NodeReader

# Of each account: enough that one of them is final soon after the next one is.
MAX_SAMPLES = 16

Sample = tuple[Block, int]
_samples: dict[tuple[int, str], deque[Sample]] = {}
_lock = Lock()


def complete(reader: NodeReader, view: ChainView) -> ChainView:
    """Add final counts to a view without them, from samples whose block is final and still in the chain."""
    missing = {
        address: counts
        for address, counts in view.counts.items()
        if counts.final is None and counts.latest is not None
    }
    if not missing or view.final_number is None:
        return view
    chosen = {address: _remember(reader, address, counts, view) for address, counts in missing.items()}
    numbers = {sample[0].number for sample in chosen.values() if sample}
    hashes = reader.hashes(sorted(numbers)) if numbers else {}
    found = {
        address: replace(missing[address], final=sample[1], final_block=sample[0].number)
        for address, sample in chosen.items()
        if sample and hashes.get(sample[0].number) == sample[0].hash
    }
    return replace(view, counts={**view.counts, **found})


def _remember(reader: NodeReader, address: str, counts: Counts, view: ChainView) -> Sample | None:
    """Keep a count of the latest block, and return the newest one that is final."""
    assert counts.latest is not None
    assert view.final_number is not None
    with _lock:
        samples = _samples.setdefault((reader.network.chain_id, address), deque())
        while samples and samples[-1][0].number > view.head.number:
            samples.pop()
        spacing = max(1, (view.head.number - view.final_number) // (MAX_SAMPLES - 2))
        if not samples or view.head.number >= samples[-1][0].number + spacing:
            samples.append((view.head, counts.latest))
        # The count may have been read a block later than the head.
        while len(samples) > 1 and samples[1][0].number < view.final_number:
            samples.popleft()
        while len(samples) > MAX_SAMPLES:
            samples.popleft()
        return samples[0] if samples[0][0].number < view.final_number else None
