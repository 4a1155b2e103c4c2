"""A node of the local network that answers what an estimate asks for; and transactions, encoded here on their own."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import rlp

from chain.networks import Network, networks, parse_network
from tests.chain import faults

RECEIVER = "0x000000000000000000000000000000000000bEEF"

# The tips are of the percentiles 30, 40, 50, 60, 70, 75 and 90.
HISTORY = {
    "oldestBlock": "0x1",
    "baseFeePerGas": ["0x64", "0x64"],
    "gasUsedRatio": [0.25],
    "reward": [["0x4", "0x5", "0x6", "0x7", "0x8", "0x9", "0xa"]],
}
# As Hardhat has it: made on demand, at any time.
HEAD = {
    "number": "0x7",
    "timestamp": hex(1_700_000_000),
    "gasUsed": hex(15_000_000),
    "gasLimit": hex(30_000_000),
    "baseFeePerGas": "0x64",
}
# What a node answers to the calls of an estimate.
ANSWERS: dict[str, dict[str, Any]] = {
    "eth_chainId": {"result": hex(31337)},
    "eth_getBlockByNumber": {"result": HEAD},
    "eth_blockNumber": {"result": hex(1_000)},
    "eth_estimateGas": {"result": hex(21_000)},
    "eth_feeHistory": {"result": HISTORY},
    "eth_baseFee": {"result": "0x65"},
    "eth_gasPrice": {"result": "0x69"},
    "eth_blobBaseFee": {"result": "0x1"},
    "linea_estimateGas": {"result": {"gasLimit": "0x5208", "baseFeePerGas": "0x7", "priorityFeePerGas": "0x8"}},
    "zks_estimateFee": {"result": {"gas_limit": hex(120_000), "max_fee_per_gas": "0x64"}},
    "eth_call": {"result": "0x" + "00" * 32},
}

ChangeNetwork = Callable[..., None]


@pytest.fixture
def change_network(settings: Any, tmp_path: Path) -> Iterator[ChangeNetwork]:
    def change(**changes: Any) -> None:
        """Let the local network be another, one with L1 fees for instance."""
        entry = {"chain_id": 31337, "symbol": "ETH", "decimals": 18, "block_seconds": 1, **changes}
        (tmp_path / "networks.json").write_text(json.dumps({"networks": {"hardhat": entry}}))
        settings.NETWORKS_FILE = str(tmp_path / "networks.json")
        networks.cache_clear()

    yield change
    networks.cache_clear()


@pytest.fixture
def set_defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangeNetwork]:
    def change(**defaults: Any) -> None:
        """Set defaults of networks, which their file overrides."""
        monkeypatch.setattr("chain.networks.parse_network", lambda name, entry: parse_network(name, defaults | entry))
        networks.cache_clear()

    yield change
    monkeypatch.setattr("chain.networks.parse_network", parse_network)
    networks.cache_clear()


def local_network(**changes: Any) -> Network:
    """Return the local network, with changes."""
    return dataclasses.replace(networks()["hardhat"], **changes)


def node_answering(**changes: dict[str, Any]) -> AbstractContextManager[faults.NodeServer]:
    """Return a node that answers each method as ANSWERS has it, with changes."""
    return faults.node(faults.by_method(**ANSWERS | changes))


def unsigned(
    *, to: str | None = RECEIVER, data: bytes = b"", value: int = 1, gas: int = 50_000, chain_id: int = 31337
) -> str:
    """Encode an unsigned transaction of EIP-1559 that names no price."""
    receiver = bytes.fromhex(to[2:]) if to else b""
    return f"0x02{rlp.encode([chain_id, 3, 0, 0, gas, receiver, value, data, []]).hex()}"


def unsigned_with_blobs(count: int) -> str:
    """Encode an unsigned transaction of EIP-4844 with so many blobs."""
    hashes = [bytes([1]) + bytes(31)] * count
    fields = [31337, 3, 0, 0, 50_000, bytes.fromhex(RECEIVER[2:]), 1, b"", [], 0, hashes]
    return f"0x03{rlp.encode(fields).hex()}"
