"""A Hardhat node with a mempool: blocks are mined on demand, dropped, reorganised, and replaced by another chain.

Each test begins with an empty chain (`reset`). After `evm_revert` the mempool is as it was at the snapshot, and the
same transactions would be mined into the same block again: `reorganise` changes the author of the blocks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from eth_account import Account
from eth_utils.crypto import keccak

from tests import servers
from tests.chain.hardhat import Chain, encode_call
from tests.relayers.factories import ADDRESS, KEY

CHAIN_ID = 31337
# The second account of the node; the first is the relayer's.
OTHER_KEY = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
OTHER_ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
RECEIVER = "0x000000000000000000000000000000000000bEEF"
GWEI = 10**9

_authors = itertools.count(1)


class LocalChain(Chain):
    """A node of the tests that mines only on request."""

    def __init__(self) -> None:
        self._process = ExitStack()
        super().__init__(self._process.enter_context(servers.hardhat()))
        self.reset()

    def reset(self) -> None:
        """Begin again with an empty chain and an empty mempool."""
        self.rpc("hardhat_reset")
        self.mine_on_demand()

    def mine(self, blocks: int = 1) -> None:
        """Mine blocks one by one: Hardhat has wrong states for those of one call, except the first and the last."""
        for _ in range(blocks):
            super().mine()

    def mine_on_demand(self) -> None:
        self.rpc("evm_setAutomine", False)
        self.rpc("evm_setIntervalMining", 0)

    def mine_at_once(self) -> None:
        """Mine a block for each transaction, and refuse nonces that leave a gap."""
        self.rpc("evm_setAutomine", True)

    def stop(self) -> None:
        self._process.close()

    def restart(self) -> None:
        """Replace the node by one with another chain, at the same URL."""
        self.stop()
        self._process.enter_context(servers.hardhat(urlsplit(self.url).port))
        # The head of the new chain differs from the head of the old one at the same height.
        self._change_author()
        self.mine_on_demand()

    def head(self) -> int:
        return int(self.rpc("eth_blockNumber"), 16)

    def block_hash(self, number: int) -> str:
        return str(self.rpc("eth_getBlockByNumber", hex(number), False)["hash"])

    def count(self, address: str = ADDRESS, tag: str = "latest") -> int:
        """Return the number of transactions that an address has sent."""
        return int(self.rpc("eth_getTransactionCount", address, tag), 16)

    def waiting(self) -> list[str]:
        """Return the hashes of the transactions in the mempool in the order of nonces, also of those behind a gap."""
        found = sorted(self.rpc("eth_pendingTransactions"), key=lambda one: (one["from"], int(one["nonce"], 16)))
        return [one["hash"] for one in found]

    def is_mined(self, transaction_hash: str) -> bool:
        return self.rpc("eth_getTransactionReceipt", transaction_hash) is not None

    def drop(self, *hashes: str) -> None:
        """Remove transactions from the mempool, or all of them."""
        for transaction_hash in hashes or self.waiting():
            self.rpc("hardhat_dropTransaction", transaction_hash)

    def snapshot(self) -> str:
        """Return a point to go back to, once: it and all later ones are gone then."""
        return str(self.rpc("evm_snapshot"))

    def reorganise(self, snapshot: str, blocks: int = 0, transactions: Sequence[bytes] = ()) -> None:
        """Go back to a snapshot, send these transactions, and mine blocks that differ from those before."""
        assert self.rpc("evm_revert", snapshot) is True
        self.mine_on_demand()
        self._change_author()
        for transaction in transactions:
            self.send_raw(transaction)
        if blocks:
            self.mine(blocks)

    def _change_author(self) -> None:
        self.rpc("hardhat_setCoinbase", f"0x{next(_authors):040x}")

    def send_from(self, key: str, nonce: int, **fields: Any) -> str:
        """Send a transaction of an account that is also used elsewhere; return its hash."""
        return self.send_raw(signed(key, nonce, **fields))

    def deploy_ledger(self) -> str:
        """Deploy the Ledger from another account than the relayer's, and return its address."""
        self.mine_at_once()
        address = self.deploy("Ledger")
        self.mine_on_demand()
        return address

    def recorded(self, ledger: str, identifier: bytes) -> int:
        """Return how often an id was recorded."""
        return int(self.call(ledger, "counts(bytes32)(uint256)", identifier))


def signed(key: str = KEY, nonce: int = 0, **fields: Any) -> bytes:
    """Sign a transaction: a transfer of 1 wei, or with other fields."""
    values = {
        "to": RECEIVER,
        "value": 1,
        "gas": 100_000,
        "maxFeePerGas": 10 * GWEI,
        "maxPriorityFeePerGas": GWEI,
        "chainId": CHAIN_ID,
    } | fields
    if "gasPrice" in values:
        del values["maxFeePerGas"], values["maxPriorityFeePerGas"]
    return bytes(Account.sign_transaction(values | {"nonce": nonce}, key).raw_transaction)


def hash_of(transaction: bytes) -> str:
    return f"0x{keccak(transaction).hex()}"


def record(identifier: bytes) -> bytes:
    """Return the data of a call that records an id in the Ledger."""
    return encode_call("record(bytes32)", identifier)


def record_then(identifier: bytes, fail: bool) -> bytes:
    return encode_call("recordThen(bytes32,bool)", identifier, fail)


@pytest.fixture(scope="session")
def local_node() -> Iterator[LocalChain]:
    """A node for the tests of one process, as each takes seconds to start."""
    try:
        found = LocalChain()
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
    yield found
    found.stop()


@pytest.fixture
def local_chain(local_node: LocalChain) -> LocalChain:
    """An empty chain that mines on demand."""
    local_node.reset()
    return local_node
