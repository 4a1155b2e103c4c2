"""The head block of a node: its values, its age, and how long it is the latest."""

from dataclasses import dataclass
from typing import Any

from chain.answers import Fault, member_quantity, quantity
from chain.attempts import Call
from chain.networks import Network

CALL = Call("eth_getBlockByNumber", ["latest", False])
NUMBER_CALL = Call("eth_blockNumber")
NO_HEAD = "did not report its head block"
# How far the clock of a chain may be ahead of this one.
MAX_CLOCK_SKEW_SECONDS = 900
# The end of the year 9999, the last that `datetime` supports.
MAX_TIMESTAMP = 253_402_300_799


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
    max_age = network.max_head_age_seconds
    if timestamp > MAX_TIMESTAMP or (max_age is not None and timestamp > now + MAX_CLOCK_SKEW_SECONDS):
        raise Fault("its head block is in the future")
    if max_age is not None and now - timestamp > max_age:
        raise _behind(max_age)
    return Head(number, timestamp, used, limit, quantity(answer.get("baseFeePerGas")))


def check_number(answer: Any, latest: Head, block_seconds: float, max_age: int) -> None:
    """Raise a fault if a node's head block is too far behind the latest known block."""
    number = quantity(answer)
    if number is None:
        raise Fault(NO_HEAD)
    if (latest.number - number) * block_seconds > max_age:
        # Not a failure of the node: the one that reported the latest block may be wrong.
        raise _behind(max_age, is_client_error=True)


def _behind(max_age: int, *, is_client_error: bool = False) -> Fault:
    return Fault(f"is behind: its head block is more than {max_age} seconds old", is_client_error=is_client_error)
