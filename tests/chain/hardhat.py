"""A chain that tests can move: contracts compiled from tests/node/contracts, deployed and driven on a Hardhat node."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rlp
from eth_abi.abi import decode, encode
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.address import to_checksum_address

from tests.concurrency import PATIENCE_SECONDS
from tests.servers import HARDHAT, Unavailable

# Where an OP-stack chain and Scroll have their oracles, and Arbitrum its interface to the node.
GAS_PRICE_ORACLE = "0x420000000000000000000000000000000000000F"
SCROLL_ORACLE = "0x5300000000000000000000000000000000000002"
NODE_INTERFACE = "0x00000000000000000000000000000000000000C8"

# A blob of zeros: its commitment and its proof are both the point at infinity, so that neither need be computed.
BLOB_BYTES = 131_072
EMPTY_BLOB_PROOF = bytes([0xC0]) + bytes(47)
EMPTY_BLOB_HASH = "0x01" + hashlib.sha256(EMPTY_BLOB_PROOF).hexdigest()[2:]
# Which field of an encoded blob transaction has its hashes.
BLOB_HASHES = 10


class NodeError(Exception):
    """What the node answered instead of a result: the whole `error` object."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


@dataclass(frozen=True)
class Contract:
    """A compiled contract: the code that creates it, the code it has then, and the types its constructor takes."""

    creation: bytes
    runtime: bytes
    constructor: tuple[str, ...]


@functools.cache
def contracts() -> dict[str, Contract]:
    """Compile all contracts; the result is kept beside the compiler until one of them changes."""
    executable = shutil.which("node")
    if executable is None or not (HARDHAT / "node_modules/solc").exists():
        raise Unavailable("solc: there is no Node.js, or `npm ci` was not run in tests/node")
    sources = [HARDHAT / "compile.js", HARDHAT / "package-lock.json", *sorted((HARDHAT / "contracts").glob("*.sol"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()
    kept = HARDHAT / f"node_modules/contracts-{digest}.json"
    with (HARDHAT / "node_modules/contracts.lock").open("w") as lock:
        # One process compiles, which takes seconds, and others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            done = subprocess.run([executable, "compile.js"], cwd=HARDHAT, check=True, stdout=subprocess.PIPE)
            # Whole or not at all, should it be killed.
            written = kept.with_suffix(".partial")
            written.write_bytes(done.stdout)
            written.replace(kept)
    return {
        name: Contract(bytes.fromhex(one["creation"]), bytes.fromhex(one["runtime"]), constructor_types(one["abi"]))
        for name, one in json.loads(kept.read_bytes()).items()
    }


def constructor_types(abi: list[dict[str, Any]]) -> tuple[str, ...]:
    inputs = [entry["inputs"] for entry in abi if entry["type"] == "constructor"]
    return tuple(each["type"] for each in inputs[0]) if inputs else ()


def encode_call(signature: str, *args: Any) -> bytes:
    """Encode a call of `name(types)`; the types of an answer may follow, as in `balanceOf(address)(uint256)`."""
    name, takes, _ = split_signature(signature)
    selector: bytes = function_signature_to_4byte_selector(f"{name}({','.join(takes)})")
    return selector + encode(takes, args)


def split_signature(signature: str) -> tuple[str, list[str], list[str]]:
    """Split `name(types)(types)` in its name, what it takes and what it answers; no type may be a tuple."""
    name, takes, *gives = signature.replace(")", "").split("(")
    return name, split_types(takes), split_types(gives[0]) if gives else []


def split_types(types: str) -> list[str]:
    return types.split(",") if types else []


def with_blobs(transaction: bytes) -> bytes:
    """Add the blobs to a signed blob transaction each of whose hashes is EMPTY_BLOB_HASH.

    This is the sidecar of before Osaka, the only one that Hardhat reads and not the one that eth-account writes.
    """
    body = rlp.decode(transaction[1:])
    count = len(body[BLOB_HASHES])
    sidecar = [[bytes(BLOB_BYTES)] * count, [EMPTY_BLOB_PROOF] * count, [EMPTY_BLOB_PROOF] * count]
    return transaction[:1] + bytes(rlp.encode([body, *sidecar]))


class Chain:
    """A Hardhat node, which mines a block for each transaction that it is sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Not httpx, which logs the URL: tests look for it in the logs of what they test.
        self.http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        # Not the first account, so that the balance and nonce of the relayers that have it are left alone.
        self.sender: str = to_checksum_address(self.rpc("eth_accounts")[1])

    def rpc(self, method: str, *params: Any) -> Any:
        """Return the result of a call; the node's error is raised."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        with self.http.open(self.url, json.dumps(request).encode(), timeout=PATIENCE_SECONDS) as response:
            answer = json.load(response)
        if "error" in answer:
            raise NodeError(answer["error"])
        return answer["result"]

    def call(self, address: str, signature: str, *args: Any) -> Any:
        """Call `name(types)(types)`: one value if it answers one, else a tuple of all."""
        data = self.rpc("eth_call", self.transaction(address, encode_call(signature, *args)), "latest")
        values = decode(split_signature(signature)[2], bytes.fromhex(data[2:]))
        return values[0] if len(values) == 1 else values

    def send(self, address: str, signature: str, *args: Any, **fields: Any) -> dict[str, Any]:
        """Send a call of `name(types)` and return its receipt; fields such as `from` or `value` may be added."""
        transaction = self.transaction(address, encode_call(signature, *args)) | fields
        return self.receipt(self.rpc("eth_sendTransaction", transaction))

    def transaction(self, address: str, data: bytes) -> dict[str, Any]:
        return {"from": self.sender, "to": address, "data": "0x" + data.hex()}

    def deploy(self, contract: str, *args: Any) -> str:
        """Deploy a contract of tests/node/contracts and return its address."""
        code = contracts()[contract]
        data = code.creation + encode(code.constructor, args)
        transaction = {"from": self.sender, "data": "0x" + data.hex()}
        receipt = self.receipt(self.rpc("eth_sendTransaction", transaction))
        return str(to_checksum_address(receipt["contractAddress"]))

    def set_code(self, address: str, contract: str) -> None:
        """Put a contract at an address that is known beforehand; no constructor runs and its storage is kept."""
        self.rpc("hardhat_setCode", address, "0x" + contracts()[contract].runtime.hex())

    def set_balance(self, address: str, wei: int) -> None:
        self.rpc("hardhat_setBalance", address, hex(wei))

    def set_next_base_fee(self, wei: int) -> None:
        """Choose the base fee of the next block; those after it follow from how full it is."""
        self.rpc("hardhat_setNextBlockBaseFeePerGas", hex(wei))

    def mine(self, blocks: int = 1) -> None:
        """Mine empty blocks, all of the same time."""
        self.rpc("hardhat_mine", hex(blocks), "0x0")

    def timestamp(self) -> int:
        """Return the time of the latest block."""
        return int(self.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def send_raw(self, transaction: bytes) -> str:
        """Send a signed transaction and return its hash."""
        return str(self.rpc("eth_sendRawTransaction", "0x" + transaction.hex()))

    def receipt(self, transaction_hash: str) -> dict[str, Any]:
        """Return the receipt of a transaction that was mined."""
        receipt: dict[str, Any] | None = self.rpc("eth_getTransactionReceipt", transaction_hash)
        assert receipt is not None, f"{transaction_hash} was not mined"
        return receipt

    def set_feed(self, feed: str, answer: int, *, decimals: int = 8, age: int = 0, **changes: int) -> None:
        """Let an aggregator answer this, said `age` seconds ago by our clock; all else of its round may be changed."""
        at = int(time.time()) - age
        values = {"round_id": 7, "started_at": at, "updated_at": at, "answered_in_round": 7} | changes
        self.send(
            feed,
            "set(uint8,uint80,int256,uint256,uint256,uint80)",
            decimals,
            values["round_id"],
            answer,
            values["started_at"],
            values["updated_at"],
            values["answered_in_round"],
        )

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Take back, at the end, all that was done to the chain."""
        snapshot = self.rpc("evm_snapshot")
        self.follow_clock()
        try:
            yield
        finally:
            assert self.rpc("evm_revert", snapshot) is True
            self.follow_clock()

    def follow_clock(self) -> None:
        """Let the chain's clock be ours: each `evm_revert` puts it forward by the time since the snapshot."""
        self.rpc("evm_setNextBlockTimestamp", max(int(time.time()), self.timestamp()))
