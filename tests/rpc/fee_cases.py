"""Random cases of fees: a transaction, a token with its sources, policies, rules and a rollup, with numbers only."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from eth_abi.abi import encode
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from tests.chain.fixtures import Deployed
from tests.chain.hardhat import EMPTY_BLOB_HASH, NODE_INTERFACE, contracts, encode_call
from tests.chain.independent import KINDS, Transaction, address_of, authorization
from tests.relayers import factories as relayers
from tests.rpc.factories import AUTHORITY, KEYS, ROLLUPS

# Each kind of transaction, unsigned and by each signer.
SIGNED_KINDS = list(itertools.product(sorted(KINDS), [None, *range(len(KEYS))]))
ACTIONS = ["transfer", "token transfer", "burn", "write", "creation"]
# The native coin, and tokens with a fixed rate.
TOKENS = ["", "token_6", "token_8", "token_18"]
POLICIES = ("eip1559_pricing", "gas_limit_estimation", "gas_price_cap", "whitelist_receivers")
COMBINATIONS = list(itertools.product([False, True], repeat=len(POLICIES)))
# Of each combination. The first is always the simplest that there is; the others are at random. The second engine,
# which cannot change a number, gets a few.
EXAMPLES = 15

NUMBERS = st.integers(0, 2**63)
# Zero, which is not set in an unsigned transaction, about what the chain takes, and any.
PRICES = st.just(0) | st.integers(0, 2 * 10**11) | NUMBERS
WORDS = st.integers(0, 2**256 - 1)
BPS = st.integers(0, 10_000)


@dataclass(frozen=True)
class Case:
    """What is asked, with numbers only: where contracts stand is known when there is a chain."""

    kind: str
    # The account that has signed; an unsigned one is the relayer's.
    signer: int | None
    action: str
    value: int
    words: tuple[int, int, int]
    gas: int
    nonce: int
    prices: tuple[int, int]
    slots: tuple[int, ...]
    blobs: int
    # The chain ids and nonces of authorizations.
    delegations: tuple[tuple[int, int], ...]
    is_to_authority: bool
    token: str
    is_by_address: bool
    knows_decimals: bool
    margin_bps: int
    fixed: str
    rollup: str
    rollup_values: tuple[int, ...]
    rules: dict[str, int | None]
    base_fee: int
    cap: int
    is_listed: bool
    says_default: bool


@st.composite
def rates(draw: st.DrawFn) -> str:
    """Return a rate as staff write it, of up to 30 digits on each side."""
    whole, part = draw(st.integers(1, 10**30 - 1)), draw(st.text("0123456789", max_size=30))
    return draw(st.sampled_from([str(whole), f"{whole}.{part}0", f"0.{part}{whole}"]))


CASES = st.builds(
    Case,
    # These three come in turn.
    kind=st.just(""),
    signer=st.none(),
    action=st.just(""),
    value=st.integers(0, 10**18),
    words=st.tuples(WORDS, WORDS, WORDS),
    gas=st.integers(21_000, 100_000) | st.integers(21_000, 16_000_000) | st.integers(200_000, 16_000_000),
    nonce=st.just(0) | NUMBERS,
    prices=st.tuples(PRICES, PRICES).map(lambda both: (min(both), max(both))),
    slots=st.lists(WORDS, max_size=3).map(tuple),
    blobs=st.integers(1, 6),
    delegations=st.lists(st.tuples(st.sampled_from([0, 31337]), st.integers(0, 1)), min_size=1, max_size=3).map(tuple),
    is_to_authority=st.booleans(),
    token=st.sampled_from(TOKENS),
    is_by_address=st.booleans(),
    knows_decimals=st.booleans(),
    margin_bps=BPS,
    fixed=rates(),
    rollup=st.sampled_from(sorted(ROLLUPS)),
    rollup_values=st.tuples(*[st.integers(1, 10**9)] * 7),
    rules=st.fixed_dictionaries(
        {
            "tip_floor": st.none() | st.integers(0, 10**11),
            "base_fee_margin_bps": st.none() | BPS,
            "gas_buffer_bps": st.none() | BPS,
        }
    ),
    base_fee=st.integers(0, 10**11),
    cap=st.integers(0, 10**11),
    is_listed=st.sampled_from([True, True, True, False]),
    says_default=st.booleans(),
)


def every(number: int, check: Callable[[Case], None], examples: int = EXAMPLES) -> None:
    """Check the examples of a combination of policies: the same in each run, and others for each combination."""
    positions: dict[str, int] = {}

    def check_in_turn(case: Case) -> None:
        # By chance alone some kinds would be missing: Hypothesis draws from the constants of all code that is loaded.
        turn = number * EXAMPLES + positions.setdefault(repr(case), len(positions))
        kind, signer = SIGNED_KINDS[turn % len(SIGNED_KINDS)]
        check(replace(case, kind=kind, signer=signer, action=ACTIONS[turn % len(ACTIONS)]))

    # A smaller example of what fails would be nice to have, but is minutes away with a node to ask.
    seed(number)(settings(max_examples=examples, phases=[Phase.generate])(given(CASES)(check_in_turn)))()


def named(number: int) -> list[str]:
    """Return the policies that a combination has set."""
    return [name for name, is_set in zip(POLICIES, COMBINATIONS[number], strict=True) if is_set] or ["none"]


def policies_of(case: Case, number: int, transaction: Transaction) -> dict[str, Any]:
    combination = dict(zip(POLICIES, COMBINATIONS[number], strict=True))
    policies: dict[str, Any] = {
        name: combination[name] for name in POLICIES[:2] if case.says_default or not combination[name]
    }
    if combination["gas_price_cap"]:
        policies["gas_price_cap"] = case.cap
    if combination["whitelist_receivers"]:
        others = [relayers.ADDRESS, NODE_INTERFACE]
        policies["whitelist_receivers"] = ["0x" + transaction.to.hex(), *others] if case.is_listed else others
    return policies


def build(case: Case, deployed: Deployed) -> tuple[Transaction, str]:
    """Make the transaction, and say who its sender is."""
    first, second, third = case.words
    misbehaving, has_authority = binary(deployed.misbehaving), case.kind == "7702" and case.is_to_authority
    write = encode_call("write(uint256,uint256,uint256)", first % 2**200, second % 6, third)
    work: dict[str, tuple[str, int, bytes]] = {
        "transfer": (f"0x{first % 2**160:040x}", case.value, b""),
        "token transfer": (
            deployed.token_6,
            0,
            encode_call("transfer(address,uint256)", f"0x{first % 2**160:040x}", third % 2**128),
        ),
        "burn": (deployed.misbehaving, 0, encode_call("burn(uint256)", second % 60_000)),
        "write": (address_of(AUTHORITY) if has_authority else deployed.misbehaving, 0, write),
        "creation": ("0x", 0, contracts()["Aggregator"].creation + encode(["uint8"], [second % 256])),
    }
    action = case.action
    if action == "creation" and case.kind in {"4844", "7702"}:
        # These create none.
        action = "transfer"
    to, value, data = work[action]
    transaction = Transaction(
        gas=case.gas,
        nonce=case.nonce,
        tip=case.prices[0],
        gas_price=case.prices[1],
        to=binary(to),
        value=value,
        data=data,
        **KINDS[case.kind],
    )
    if transaction.type > 0:
        listed = tuple(slot.to_bytes(32, "big") for slot in case.slots)
        transaction = replace(transaction, access_list=((misbehaving, listed),) * bool(listed))
    if transaction.type == 3:
        transaction = replace(
            transaction, blob_price=case.prices[0], blob_hashes=(binary(EMPTY_BLOB_HASH),) * case.blobs
        )
    if transaction.type == 4:
        signed = tuple(authorization(AUTHORITY, chain_id, misbehaving, nonce) for chain_id, nonce in case.delegations)
        transaction = replace(transaction, authorizations=signed)
    return transaction, relayers.ADDRESS if case.signer is None else address_of(KEYS[case.signer])


def encoded(case: Case, transaction: Transaction) -> bytes:
    return transaction.unsigned() if case.signer is None else transaction.signed(KEYS[case.signer])


def binary(text: str) -> bytes:
    return bytes.fromhex(text[2:])
