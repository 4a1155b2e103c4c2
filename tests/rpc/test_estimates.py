"""Fees of random transactions, against a real node: the answer is that of an independent computation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from eth_abi.abi import encode
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from pytest_django import Settings

from relayer_service.storage import ttl_cache
from rpc.dispatch import answer
from rpc.models import FeeToken
from rpc.relayer_lookup import RpcRelayer
from tests.amounts import amount
from tests.relayers import factories as relayers
from tests.rpc import factories, independent
from tests.rpc.chain import EMPTY_BLOB_HASH, GAS_PRICE_ORACLE, NODE_INTERFACE, Chain, contracts, encode_call
from tests.rpc.conftest import Deployed
from tests.rpc.factories import AUTHORITY, KEYS, NETWORKS, ROLLUPS, RULES, fee_networks, store
from tests.rpc.independent import KINDS, Ratio, Terms, Transaction, address_of, authorization, fixed_rate

__all__ = ["fee_networks"]

RECEIVER = "0x000000000000000000000000000000000000bEEF"

# Each kind of transaction, unsigned and by each signer.
SIGNED_KINDS = list(itertools.product(sorted(KINDS), [None, *range(len(KEYS))]))
ACTIONS = ["transfer", "token transfer", "burn", "write", "creation"]
# A token and the sources of its price.
TOKENS = {
    "native": ("", ()),
    "fixed, 6 decimals": ("token_6", ("fixed",)),
    "fixed, 8 decimals": ("token_8", ("fixed",)),
    "fixed, 18 decimals": ("token_18", ("fixed",)),
    "chainlink usd": ("token_18", ("chainlink_usd",)),
    "chainlink native": ("token_8", ("chainlink_native",)),
    "pair": ("token_6", ("pair",)),
    "two": ("token_6", ("chainlink_usd", "pair")),
    "three": ("token_6", ("fixed", "chainlink_native", "pair")),
    "three others": ("token_8", ("chainlink_usd", "chainlink_native", "fixed")),
}
POLICIES = ("eip1559_pricing", "gas_limit_estimation", "gas_price_cap", "whitelist_receivers")
COMBINATIONS = list(itertools.product([False, True], repeat=len(POLICIES)))
# How full the last blocks are; each is a percentile of the tips, and without any transaction there are none.
FULLNESS = [0, 10, 55, 75, 95]
# Of each combination. The first is always the simplest that there is; the others are at random. The second engine,
# which cannot change a number, gets a few.
EXAMPLES = 15

NUMBERS = st.integers(0, 2**63)
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
    # The native coin's price and the token's in USD, with the decimals of their feeds; and how far sources are apart.
    usd: tuple[int, int]
    usd_decimals: tuple[int, int]
    apart_bps: tuple[int, ...]
    fixed: str
    rollup: str
    rollup_values: tuple[int, int, int]
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
    gas=st.integers(21_000, 16_000_000),
    nonce=NUMBERS,
    prices=st.tuples(NUMBERS, NUMBERS).map(lambda both: (min(both), max(both))),
    slots=st.lists(WORDS, max_size=3).map(tuple),
    blobs=st.integers(1, 6),
    delegations=st.lists(st.tuples(st.sampled_from([0, 31337]), st.integers(0, 1)), min_size=1, max_size=3).map(tuple),
    is_to_authority=st.booleans(),
    token=st.sampled_from(sorted(TOKENS)),
    is_by_address=st.booleans(),
    knows_decimals=st.booleans(),
    margin_bps=BPS,
    usd=st.tuples(st.integers(10**6, 10**14), st.integers(10**6, 10**14)),
    usd_decimals=st.tuples(st.integers(6, 18), st.integers(6, 18)),
    apart_bps=st.tuples(*[st.integers(0, 4_000)] * 3),
    fixed=rates(),
    rollup=st.sampled_from(sorted(ROLLUPS)),
    rollup_values=st.tuples(*[st.integers(0, 10**9)] * 3),
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


@pytest.fixture
def fill_blocks(chain: Chain, deployed: Deployed) -> Iterator[Callable[[int], None]]:
    limit = chain.rpc("eth_getBlockByNumber", "latest", False)["gasLimit"]

    def fill(percent: int) -> None:
        """Mine ten blocks that are so full, of ten transactions each whose tips are all different."""
        chain.rpc("evm_setAutomine", False)
        # Small ones, as gas takes time.
        chain.rpc("evm_setBlockGasLimit", hex(400_000))
        work = {"from": chain.sender, "to": RECEIVER}
        if percent > 50:
            # The call itself costs somewhat less than 22,000.
            work = chain.transaction(deployed.misbehaving, encode_call("burn(uint256)", percent * 400 - 21_900))
        for block in range(10):
            for number in range(10 if percent > 50 else percent // 5):
                tip = (block * 31 + number * 17) % 97 * 10**7
                fees = {"gas": hex(39_900), "maxPriorityFeePerGas": hex(tip), "maxFeePerGas": hex(10**13)}
                chain.rpc("eth_sendTransaction", work | fees)
            chain.mine()
        chain.rpc("evm_setBlockGasLimit", limit)
        chain.rpc("evm_setAutomine", True)

    yield fill
    # Going back to a snapshot leaves these two as they are.
    chain.rpc("evm_setBlockGasLimit", limit)
    chain.rpc("evm_setAutomine", True)


@pytest.mark.django_db
@pytest.mark.usefixtures("fee_networks")
@pytest.mark.parametrize("number", range(len(COMBINATIONS)), ids=lambda number: "-".join(named(number)))
def test_a_fee_is_that_of_the_independent_computation(
    chain: Chain, deployed: Deployed, fill_blocks: Callable[[int], None], settings: Settings, number: int
) -> None:
    relayer = relayers.relayer(rpc_urls=[{"url": chain.url, "weight": 100}])
    for key in KEYS:
        chain.send(deployed.token_6, "mint(address,uint256)", address_of(key), 2**128)
    fill_blocks(FULLNESS[number % len(FULLNESS)])

    def check(case: Case) -> None:
        transaction, sender = build(case, deployed)
        relayer.network, relayer.policies = ROLLUPS[case.rollup], policies_of(case, number, transaction)
        set_chain(chain, deployed, case)
        set_rules(settings, case.rules)
        token, rate = set_token(chain, deployed, case)
        params = {
            "fee_token": "COIN" if token is None else token.address if case.is_by_address else token.symbol,
            "network": relayer.network if case.says_default else "evm",
            "transaction": "0x" + encoded(case, transaction).hex(),
        }
        ttl_cache.clear_all()
        given_answer = answer(RpcRelayer.of(relayer), "feeEstimate", params)
        assert given_answer == expected(chain, case, transaction, sender, relayer.policies, rate)

    every(number, check, amount(2, EXAMPLES))


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


def test_the_examples_are_of_every_kind() -> None:
    cases: list[Case] = []
    for number in range(len(COMBINATIONS)):
        every(number, lambda case: cases.append(case))
    assert len(cases) >= 200
    assert len({repr(case) for case in cases}) >= 200
    assert {(case.kind, case.signer) for case in cases} == set(SIGNED_KINDS)
    assert {(case.kind, case.action) for case in cases} == set(itertools.product(KINDS, ACTIONS))
    assert {case.token for case in cases} == set(TOKENS)
    assert {case.rollup for case in cases} == set(ROLLUPS)
    assert {case.is_listed for case in cases} == {case.is_to_authority for case in cases} == {False, True}
    assert {len(case.slots) for case in cases} == {0, 1, 2, 3}
    for name in RULES:
        assert {case.rules[name] is None for case in cases} == {False, True}


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


def set_rules(settings: Settings, rules: dict[str, int | None]) -> None:
    settings.FEE_TIP_FLOOR_WEI = rules["tip_floor"]
    settings.FEE_BASE_FEE_MARGIN_BPS = rules["base_fee_margin_bps"]
    settings.FEE_GAS_BUFFER_BPS = rules["gas_buffer_bps"]


def set_chain(chain: Chain, deployed: Deployed, case: Case) -> None:
    """Let the chain have the case's prices, without a block that would change those of gas."""
    chain.set_next_base_fee(case.base_fee)
    if case.rollup != "none":
        address = NODE_INTERFACE if case.rollup == "NodeInterface" else GAS_PRICE_ORACLE
        chain.set_code(address, case.rollup)
        store(chain, address, *case.rollup_values)
    native, token = case.usd
    for feed, price, decimals in zip(
        (deployed.native_usd, deployed.token_usd), case.usd, case.usd_decimals, strict=True
    ):
        # In millionths of a dollar, said with as many decimals as the feed has.
        store(chain, feed, 7 << 8 | decimals, price * 10**decimals // 10**6)
    store(chain, deployed.token_native, 7 << 8 | 30, apart(token * 10**30, case.apart_bps[0]) // native)
    # Of a token with six decimals, beside 10^9 coins.
    reserve = apart(native * 10**15, case.apart_bps[1]) // token
    store(chain, deployed.pair, None, None, 10**27 << 112 | reserve)


def apart(amount: int, bps: int) -> int:
    return amount * (10_000 + bps) // 10_000


def set_token(chain: Chain, deployed: Deployed, case: Case) -> tuple[FeeToken | None, Ratio]:
    """Register the token, with no other; return it and its rate."""
    FeeToken.objects.all().delete()
    name, sources = TOKENS[case.token]
    if not name:
        return None, (1, 1)
    address = getattr(deployed, name)
    token = factories.fee_token(
        network=ROLLUPS[case.rollup],
        symbol="TKN",
        address=address,
        margin_bps=case.margin_bps,
        max_spread_bps=10_000,
        decimals=chain.call(address, "decimals()(uint8)") if case.knows_decimals else None,
    )
    native, usd = case.usd
    # Beside other sources it has to be near them.
    near = apart(native * 10**12, case.apart_bps[2]) // usd
    fixed = case.fixed if len(sources) == 1 else f"{near // 10**12}.{near % 10**12:012}"
    made: dict[str, tuple[Callable[[], Any], Callable[[], Ratio]]] = {
        "fixed": (lambda: factories.fixed_source(token, fixed), lambda: fixed_rate(fixed)),
        "chainlink_usd": (
            lambda: factories.chainlink_usd_source(token, deployed.token_usd, deployed.native_usd),
            lambda: independent.chainlink_usd_rate(chain, deployed.token_usd, deployed.native_usd),
        ),
        "chainlink_native": (
            lambda: factories.chainlink_native_source(token, deployed.token_native),
            lambda: independent.chainlink_native_rate(chain, deployed.token_native),
        ),
        "pair": (
            lambda: factories.pair_source(token, deployed.pair, deployed.wrapped),
            lambda: independent.pair_rate(chain, deployed.pair, address),
        ),
    }
    for source in sources:
        made[source][0]()
    return token, independent.median([made[source][1]() for source in sources])


def expected(
    chain: Chain, case: Case, transaction: Transaction, sender: str, policies: dict[str, Any], rate: Ratio
) -> dict[str, Any]:
    """Return the whole answer."""
    allowed = policies.get("whitelist_receivers")
    if allowed is not None and (not transaction.to or not case.is_listed):
        what = "this receiver" if transaction.to else "contracts to be created"
        description = f"The relayer's policy whitelist_receivers does not allow {what}."
        return {"error": {"code": -32004, "message": "Policy refused", "description": description}}
    l1_fee = ROLLUPS[case.rollup]
    given_rules = {name: value for name, value in case.rules.items() if value is not None}
    terms = Terms(policies, l1_fee=l1_fee, **RULES | NETWORKS[l1_fee] | given_rules)
    native = independent.native_fee(chain, transaction, sender, terms)
    name = TOKENS[case.token][0]
    decimals, margin_bps = (int(name.removeprefix("token_")), case.margin_bps) if name else (18, 0)
    fee = independent.token_fee(native, rate, decimals, margin_bps)
    return {
        "result": {
            "estimated_fee": independent.units_text(fee, decimals),
            "conversion_rate": independent.rate_text(rate),
            "method": "feeEstimate",
        }
    }
