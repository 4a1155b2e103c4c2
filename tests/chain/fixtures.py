"""Nodes for the tests of several folders: a real one, one with contracts to change at will, and those that fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from chain.nodes import attempts
from tests import servers
from tests.chain import faults
from tests.chain.hardhat import Chain, contracts
from tests.concurrency import PATIENCE_SECONDS
from tests.relayers.factories import ADDRESS


@pytest.fixture(scope="session")
def hardhat() -> Iterator[str]:
    """The URL of a real Ethereum node."""
    with ExitStack() as stack:
        try:
            url = stack.enter_context(servers.hardhat())
        except servers.Unavailable as reason:
            pytest.skip(str(reason))
        # Its first answer takes a while.
        attempts.attempt(url, [attempts.Call("eth_getBalance", [ADDRESS, "latest"])], None, PATIENCE_SECONDS)
        yield url


@pytest.fixture(scope="session")
def faulty(hardhat: str) -> Iterator[dict[str, str]]:
    """The URLs of nodes that fail, by how they do."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(faults.node(one, hardhat)).url for name, one in faults.FAULTS.items()}
        yield urls | {"refuse": stack.enter_context(faults.refusing())}


@pytest.fixture
def quick_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes have less time than they have by default, so that those that hang cost little."""
    monkeypatch.setattr(attempts, "ATTEMPT_SECONDS", 2)
    monkeypatch.setattr(attempts, "MAX_ANSWER_BYTES", 1_000_000)


@dataclass(frozen=True)
class Deployed:
    """The addresses of the contracts that every test has, with the values that `deployed` gives them."""

    token_0: str
    token_6: str
    token_8: str
    token_18: str
    token_30: str
    wrapped: str
    native_usd: str
    token_usd: str
    token_native: str
    sequencer: str
    pair: str
    misbehaving: str


@pytest.fixture(scope="session")
def chain() -> Iterator[Chain]:
    """A real Ethereum node of the tests' own, on which they do as they like."""
    with ExitStack() as stack:
        try:
            contracts()
            url = stack.enter_context(servers.hardhat())
        except servers.Unavailable as reason:
            pytest.skip(str(reason))
        yield Chain(url)


@pytest.fixture(scope="session")
def deployed(chain: Chain) -> Deployed:
    """The contracts, with prices that are fresh: 2481.9375 USD for the coin, 1.0001 USD for the token."""
    wrapped, token_6 = chain.deploy("Token", "Wrapped Ether", "WETH", 18), chain.deploy("Token", "Token 6", "T6", 6)
    found = Deployed(
        token_0=chain.deploy("Token", "Token 0", "T0", 0),
        token_6=token_6,
        token_8=chain.deploy("Token", "Token 8", "T8", 8),
        token_18=chain.deploy("Token", "Token 18", "T18", 18),
        token_30=chain.deploy("Token", "Token 30", "T30", 30),
        wrapped=wrapped,
        native_usd=chain.deploy("Aggregator", 8),
        token_usd=chain.deploy("Aggregator", 8),
        token_native=chain.deploy("Aggregator", 18),
        sequencer=chain.deploy("Aggregator", 0),
        pair=chain.deploy("Pair", token_6, wrapped),
        misbehaving=chain.deploy("Misbehaving"),
    )
    chain.set_feed(found.native_usd, 248_193_750_000)
    chain.set_feed(found.token_usd, 100_010_000)
    chain.set_feed(found.token_native, 402_951_121_654_151, decimals=18)
    # The sequencer is up, and has been for a day.
    chain.set_feed(found.sequencer, 0, decimals=0, age=86_400)
    chain.send(found.pair, "set(uint112,uint112,uint32)", 2_481_937_500_000, 1_000 * 10**18, chain.timestamp())
    return found


@pytest.fixture(autouse=True)
def restored_chain(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave nothing of what one test has done to the chain to the next, in tests that use it."""
    if "chain" not in request.fixturenames:
        yield
        return
    chain: Chain = request.getfixturevalue("chain")
    with chain.restored():
        yield
