"""The head block of a node: its values, its age, and how long it is the latest."""

from dataclasses import dataclass
from typing import Any

from chain.networks import Network
from chain.nodes.answers import Fault, member_quantity, quantity
from chain.nodes.attempts import Call
from chain.nodes.plausibility import BEHIND, age_fault

CALL = Call("eth_getBlockByNumber", ["latest", False])
NUMBER_CALL = Call("eth_blockNumber")
NO_HEAD = "did not report its head block"


@dataclass(frozen=True)
class Head:
    """The latest block: the fields that the next one depends on."""

    number: int
    timestamp: int
    gas_used: int
    gas_limit: int
    # None on a network without EIP-1559.
    base_fee: int | None = None

    def next_due(self, network: Network) -> float:
        return self.timestamp + network.block_seconds

    def seconds_left(self, network: Network, now: float) -> float:
        """Return the seconds until the next block is due, at most the time of a block."""
        return min(max(self.next_due(network) - now, 0), network.block_seconds)


def read(answer: Any, network: Network, now: float) -> Head:
    """Return the head block of an answer; raise a fault if it is missing, too old or in the future."""
    names = ("number", "timestamp", "gasUsed", "gasLimit")
    number, timestamp, used, limit = (member_quantity(answer, name) for name in names)
    if number is None or timestamp is None or used is None or limit is None:
        raise Fault(NO_HEAD)
    if reason := age_fault(timestamp, now, network.max_head_age_seconds):
        raise Fault(reason, head_time=timestamp if timestamp <= now else None)
    return Head(number, timestamp, used, limit, quantity(answer.get("baseFeePerGas")))


def check_number(answer: Any, latest: Head, block_seconds: float, max_age: int) -> None:
    """Raise a fault if a node's head block is too far behind the latest known block."""
    number = quantity(answer)
    if number is None:
        raise Fault(NO_HEAD)
    if (latest.number - number) * block_seconds > max_age:
        # Not a failure of the node: the one that reported the latest block may be wrong.
        raise Fault(BEHIND.format(max_age), is_client_error=True)
