"""What rollups charge for a transaction's data, by their published formulas and beside the contracts of the tests.

The formulas are those of op-geth (core/types/rollup_cost.go), mantlenetworkio/op-geth (the same file) and
scroll-tech/go-ethereum (rollup/fees/rollup_fee.go).
"""

from __future__ import annotations

import zstandard

# What an OP-stack oracle adds for the signature that an unsigned transaction does not have.
SIGNATURE_BYTES = 68
# FastLZ finds no match farther back than this, and its table has one place more.
FARTHEST = 2**13 - 1


def op_stack_l1_fee(unsigned: bytes, base_fee: int, blob_base_fee: int, base_scalar: int, blob_scalar: int) -> int:
    """Return what the oracle tells for an unsigned transaction, since Fjord."""
    return op_stack_cost(fastlz_length(unsigned) + SIGNATURE_BYTES, base_fee, blob_base_fee, base_scalar, blob_scalar)


def op_stack_charge(signed: bytes, base_fee: int, blob_base_fee: int, base_scalar: int, blob_scalar: int) -> int:
    """Return what a node charges for a signed transaction, since Fjord."""
    return op_stack_cost(fastlz_length(signed), base_fee, blob_base_fee, base_scalar, blob_scalar)


def op_stack_cost(compressed: int, base_fee: int, blob_base_fee: int, base_scalar: int, blob_scalar: int) -> int:
    # In millionths of a byte, and at least a hundred bytes.
    size = max(100 * 10**6, 836_500 * compressed - 42_585_600)
    return size * (16 * base_scalar * base_fee + blob_scalar * blob_base_fee) // 10**12


def scroll_l1_fee(
    length: int, base_fee: int, blob_base_fee: int, commit_scalar: int, blob_scalar: int, penalty_factor: int
) -> int:
    """Return what a signed transaction costs that has this length after compression, since Galileo."""
    base = (commit_scalar * base_fee + blob_scalar * blob_base_fee) * length
    return (base + base * length // penalty_factor) // 10**9


def scroll_length(signed: bytes) -> int:
    """Return the length that Scroll charges for: after zstandard of level 3 if that is shorter, without its number."""
    magic_number = 4
    return min(len(signed), len(zstandard.compress(signed, 3)) - magic_number)


def fastlz_length(data: bytes) -> int:
    """Return the length of data after FastLZ of level 1, of which nothing is written."""
    length, written, at = 0, 0, 2
    places: dict[int, int] = {}
    # No match begins in the last fourteen bytes.
    while at < len(data) - 14:
        earlier = places.get(slot(data, at), 0)
        places[slot(data, at)] = at
        if at - earlier > FARTHEST or data[earlier : earlier + 3] != data[at : at + 3]:
            at += 1
            continue
        same = matched(data, earlier, at)
        length += literals_length(at - written) + match_length(same)
        # The two places that it ends with are remembered, and not searched.
        at += same + 2
        places[slot(data, at - 2)], places[slot(data, at - 1)] = at - 2, at - 1
        written = at
    return length + literals_length(len(data) - written)


def slot(data: bytes, at: int) -> int:
    """Return where the table has three bytes."""
    return int.from_bytes(data[at : at + 3], "little") * 2_654_435_769 >> 19 & FARTHEST


def matched(data: bytes, earlier: int, at: int) -> int:
    """Return how many bytes are the same after the first two, up to the last four of the data."""
    same, most = 1, len(data) - at - 7
    while same < most and data[earlier + 2 + same] == data[at + 2 + same]:
        same += 1
    return same


def literals_length(count: int) -> int:
    """Return the length of bytes that are kept: each run of at most 32 has its length before it."""
    return count + -(-count // 32)


def match_length(same: int) -> int:
    """Return the length of a match: tokens of three bytes, and two for a short rest."""
    tokens, rest = divmod(same - 1, 262)
    return 3 * tokens + (3 if rest >= 6 else 2)
