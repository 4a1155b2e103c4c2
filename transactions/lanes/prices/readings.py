"""What a turn reads of its account and chain, besides the market and estimates."""

from collections.abc import Mapping, Sequence
from typing import Any

from chain.errors import InsufficientData
from chain.networks import Network
from chain.nodes import head
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from chain.nodes.failover import Node
from chain.readings import ChainReading
from transactions.lanes.prices.market import Readings, checked, gather_values
from transactions.lanes.prices.planning import BLOCK

# The reading of the count with pending transactions, of other programs too: 0 from a node that does not report it.
PENDING = "pending"


def account_readings(address: str) -> dict[str, ChainReading]:
    """Return the readings of an account, never cached: other programs can use it.

    A block may come within the batch, so the count is the lower one of those before and after the balance: what is
    reserved above it covers all that the balance does not include.
    """

    def read(answers: list[Any], name: str) -> int:
        numbers = [number for answer in answers if (number := quantity(answer)) is not None]
        if len(numbers) < len(answers):
            raise InsufficientData(f"The node did not report the {name} of the account.")
        return min(numbers)

    before, after = (Call("eth_getTransactionCount", [address, "latest"]) for _ in range(2))
    balance = Call("eth_getBalance", [address, "latest"])
    pending = Call("eth_getTransactionCount", [address, "pending"], is_optional=True)
    return {
        # In the order of the batch.
        "balance": ChainReading([before, balance, after], lambda answers: read(answers[1:2], "balance")),
        "count": ChainReading([before, after], lambda answers: read(answers, "transaction count")),
        PENDING: ChainReading([pending], lambda answers: quantity(answers[0]) or 0),
        # The head block may be cached: this is that of the node that answers.
        BLOCK: ChainReading([head.NUMBER_CALL], lambda answers: quantity(answers[0]) or 0),
    }


def gather_with_account(
    nodes: Sequence[Node], network: Network, policies: Mapping[str, Any], address: str, readings: Readings
) -> dict[str, Any]:
    """Read values and those of the account as `gather_values` does; raise the fault of the balance or the count."""
    found = gather_values(nodes, network, policies, address, {**account_readings(address), **readings})
    for name in ("balance", "count"):
        checked(found, name)
    return found


def genesis_reading() -> ChainReading:
    """Return the reading of the hash of the first block, which is never cached."""
    call = Call("eth_getBlockByNumber", ["0x0", False])
    return ChainReading([call], lambda answers: answers[0].get("hash", "") if isinstance(answers[0], dict) else "")
