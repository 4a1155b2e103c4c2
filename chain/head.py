"""The head block of a node: what the latest state is of, how old it is, and how long it counts."""

from dataclasses import dataclass
from typing import Any

from chain.answers import Fault, quantity
from chain.attempts import Call
from chain.networks import Network

CALL = Call("eth_getBlockByNumber", ["latest", False])
NUMBER_CALL = Call("eth_blockNumber")
# How far the clock of a chain may be ahead of ours.
MAX_CLOCK_SKEW_SECONDS = 900
# The end of the year 9999, after which no date can be written.
MAX_TIMESTAMP = 253_402_300_799


@dataclass(frozen=True)
class Head:
    """The latest block, as far as the next one depends on it."""

    number: int
    timestamp: int
    gas_used: int
    gas_limit: int
    # None on a network without EIP-1559.
    base_fee: int | None = None

    def next_due(self, network: Network) -> float:
        """Return the Unix time at which the next block is due."""
        return self.timestamp + network.block_seconds

    def seconds_left(self, network: Network, now: float) -> float:
        """Return for how long this is the latest block: until the next is due, and never longer than a block takes."""
        return min(max(self.next_due(network) - now, 0), network.block_seconds)


def read(answer: Any, network: Network, now: float) -> Head:
    """Return the head block of a node's answer; raise a fault if the node is behind, or says something else."""
    try:
        number, timestamp, used, limit = (
            _required(answer, name) for name in ("number", "timestamp", "gasUsed", "gasLimit")
        )
    except (KeyError, TypeError, ValueError):
        raise Fault("it does not tell its head block") from None
    max_age = network.max_head_age_seconds
    if timestamp > MAX_TIMESTAMP or (max_age is not None and timestamp > now + MAX_CLOCK_SKEW_SECONDS):
        raise Fault("the time of its head block is still to come")
    if max_age is not None and now - timestamp > max_age:
        raise _behind(max_age)
    return Head(number, timestamp, used, limit, quantity(answer.get("baseFeePerGas")))


def check_number(answer: Any, latest: Head, block_seconds: float, max_age: int) -> None:
    """Raise a fault if a node's head block is too far behind the latest block that is known."""
    number = quantity(answer)
    if number is None:
        raise Fault("it does not tell its head block")
    if (latest.number - number) * block_seconds > max_age:
        # It does not count against the node: the one that told the latest block may be the one that is wrong.
        raise _behind(max_age, is_client_error=True)


def _behind(max_age: int, *, is_client_error: bool = False) -> Fault:
    return Fault(f"it is behind: its head block is more than {max_age} seconds old", is_client_error=is_client_error)


def _required(answer: Any, name: str) -> int:
    found = quantity(answer[name])
    if found is None:
        raise ValueError(name)
    return found
