"""A Hardhat node that mines a block every second, with funded senders and a ledger of what was executed."""

import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests import servers
from tests.chain.hardhat import Chain, encode_call

BLOCK_MILLISECONDS = 1000
FUNDS = 10**24

_authors = itertools.count(1)


class MiningChain(Chain):
    """A chain with a `Ledger`, which counts how often each id was recorded."""

    ledger: str

    def start_mining(self) -> None:
        self.ledger = self.deploy("Ledger")
        self.rpc("evm_setAutomine", False)
        self.rpc("evm_setIntervalMining", BLOCK_MILLISECONDS)

    def fund(self, addresses: Sequence[str]) -> None:
        for address in addresses:
            self.set_balance(address, FUNDS)

    def reorganise(self, seconds: float) -> None:
        """Replace the blocks of so many seconds by other ones, and one more; what was sent meanwhile is forgotten."""
        before, snapshot = self.head(), self.rpc("evm_snapshot")
        time.sleep(seconds)
        replaced = self.head() - before
        self.rpc("evm_setIntervalMining", 0)
        assert self.rpc("evm_revert", snapshot) is True
        # The same transactions would make the same blocks otherwise.
        self.rpc("hardhat_setCoinbase", f"0x{next(_authors):040x}")
        self.follow_clock()
        self.mine(replaced + 1)
        self.rpc("evm_setIntervalMining", BLOCK_MILLISECONDS)

    def head(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def recorded(self, number: int) -> int:
        """Return how often the request with this number was executed."""
        times: int = self.call(self.ledger, "counts(bytes32)(uint256)", ledger_id(number))
        return times


def ledger_id(number: int) -> bytes:
    return number.to_bytes(32)


def record(number: int) -> str:
    """Return the call data that records the request with this number."""
    return "0x" + encode_call("record(bytes32)", ledger_id(number)).hex()


@contextmanager
def mining_chain() -> Iterator[MiningChain]:
    with servers.hardhat() as url:
        chain = MiningChain(url)
        chain.start_mining()
        yield chain
