"""Fees of random transactions, against a real node: the answers are those of an independent computation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from chain.networks import networks
from relayer_service.database import ttl_cache
from rpc.dispatch import answer
from rpc.models import FeeToken
from tests.amounts import amount
from tests.chain import independent
from tests.chain.fixtures import Deployed
from tests.chain.hardhat import GAS_PRICE_ORACLE, NODE_INTERFACE, SCROLL_ORACLE, Chain, encode_call
from tests.chain.independent import Ratio, Refused, Terms, Transaction, address_of, fixed_rate
from tests.relayers import factories as relayers
from tests.rpc import factories
from tests.rpc.factories import KEYS, NETWORKS, ROLLUPS, RULES, fee_networks, store
from tests.rpc.fee_cases import (
    COMBINATIONS,
    Case,
    build,
    encoded,
    every,
    named,
    policies_of,
)

__all__ = ["fee_networks"]

RECEIVER = "0x000000000000000000000000000000000000bEEF"
# How full the last blocks are; each is a percentile of the tips, and without any transaction there are none.
FULLNESS = [0, 10, 55, 75, 95]
# Where the contract of a rollup stands, unless it is the OP stack's oracle.
ADDRESSES = {"NodeInterface": NODE_INTERFACE, "L1GasPriceOracle": SCROLL_ORACLE}


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
    settings.EXTENSIONS = ["quotes"]
    relayer = relayers.relayer(rpc_urls=[{"url": chain.url, "weight": 100}])
    for key in KEYS:
        chain.send(deployed.token_6, "mint(address,uint256)", address_of(key), 2**128)
    fill_blocks(FULLNESS[number % len(FULLNESS)])

    def check(case: Case) -> None:
        transaction, sender = build(case, deployed)
        relayer.network, relayer.policies = ROLLUPS[case.rollup], policies_of(case, number, transaction)
        set_chain(chain, case)
        set_rules(relayer.network, case.rules)
        token, rate = set_token(chain, deployed, case)
        name = "COIN" if token is None else token.address if case.is_by_address else token.symbol
        params = {
            "network": relayer.network if case.says_default else "evm",
            "transaction": "0x" + encoded(case, transaction).hex(),
        }
        ttl_cache.clear_all()
        estimated = answer(relayer, "feeEstimate", params | {"fee_token": name})
        quoted = answer(relayer, "feeQuote", params | {"fee_tokens": [name]})
        assert (estimated, amounts_of(quoted)) == expected(chain, case, transaction, sender, relayer.policies, rate)

    every(number, check, amount(2, 5))


def set_rules(network: str, rules: dict[str, int | None]) -> None:
    own: dict[str, Any] = (
        RULES | NETWORKS[network] | {name: value for name, value in rules.items() if value is not None}
    )
    networks()[network] = replace(networks()[network], **own)


def set_chain(chain: Chain, case: Case) -> None:
    """Let the chain have the case's prices, without a block that would change those of gas."""
    chain.set_next_base_fee(case.base_fee)
    if case.rollup != "none":
        address = ADDRESSES.get(case.rollup, GAS_PRICE_ORACLE)
        chain.set_code(address, case.rollup)
        store(chain, address, *case.rollup_values)


def set_token(chain: Chain, deployed: Deployed, case: Case) -> tuple[FeeToken | None, Ratio]:
    """Register the token, with no other; return it and its rate."""
    FeeToken.objects.all().delete()
    if not case.token:
        return None, (1, 1)
    address = getattr(deployed, case.token)
    token = factories.fee_token(
        network=ROLLUPS[case.rollup],
        symbol="TKN",
        address=address,
        margin_bps=case.margin_bps,
        decimals=chain.call(address, "decimals()(uint8)") if case.knows_decimals else None,
    )
    factories.fixed_source(token, case.fixed)
    return token, fixed_rate(case.fixed)


def amounts_of(quoted: dict[str, Any]) -> dict[str, Any]:
    """Return the amounts of a quote, or its error."""
    if "error" in quoted:
        return quoted
    native, (token,) = quoted["result"]["native"], quoted["result"]["tokens"]
    return {name: (native[name], token[name]) for name in ("expected", "maximum")}


def expected(
    chain: Chain, case: Case, transaction: Transaction, sender: str, policies: dict[str, Any], rate: Ratio
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the whole answer of `feeEstimate`, and the amounts of `feeQuote`; both refuse the same."""
    try:
        natives = native_fees(chain, case, transaction, sender, policies)
    except Refused as refused:
        return {"error": refused.error}, {"error": refused.error}
    decimals, margin_bps = (int(case.token.removeprefix("token_")), case.margin_bps) if case.token else (18, 0)
    fees = [
        independent.units_text(independent.token_fee(native, rate, decimals, margin_bps), decimals)
        for native in natives
    ]
    amounts = [(str(independent.ceil(native)), fee) for native, fee in zip(natives, fees, strict=True)]
    result = {
        "estimated_fee": fees[1],
        "conversion_rate": independent.rate_text(rate),
        "method": "feeEstimate",
    }
    return {"result": result}, dict(zip(("expected", "maximum"), amounts, strict=True))


def native_fees(
    chain: Chain, case: Case, transaction: Transaction, sender: str, policies: dict[str, Any]
) -> tuple[Ratio, Ratio]:
    allowed = policies.get("whitelist_receivers")
    listed = {address.lower() for address in allowed or ()}
    if allowed is not None and (not transaction.to or f"0x{transaction.to.hex()}" not in listed):
        what = "this receiver" if transaction.to else "creating contracts"
        description = f"The relayer's policy whitelist_receivers does not allow {what}."
        raise Refused(-32004, "Policy refused", description)
    kind = ROLLUPS[case.rollup]
    given_rules = {name: value for name, value in case.rules.items() if value is not None}
    terms = Terms(policies, kind=kind, **RULES | NETWORKS[kind] | given_rules)
    return independent.native_fees(chain, transaction, sender, terms, is_signed=case.signer is not None)
