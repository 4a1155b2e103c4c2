"""What a turn reads of its account and chain, besides the market and estimates."""

from typing import Any

from chain import head
from chain.answers import quantity
from chain.attempts import Call
from chain.errors import InsufficientData
from chain.readings import ChainReading
from transactions.lanes.planning import BLOCK

# The reading of the count with pending transactions, of other programs too: 0 from a node that does not report it.
PENDING = "pending"


def account_readings(address: str) -> dict[str, ChainReading]:
    """Return the readings of an account, never cached: other programs can use it."""

    def reading(method: str, name: str) -> ChainReading:
        def read(answers: list[Any]) -> int:
            number = quantity(answers[0])
            if number is None:
                raise InsufficientData(f"The node did not report the {name} of the account.")
            return number

        return ChainReading([Call(method, [address, "latest"])], read)

    pending = Call("eth_getTransactionCount", [address, "pending"], is_optional=True)
    return {
        "balance": reading("eth_getBalance", "balance"),
        "count": reading("eth_getTransactionCount", "transaction count"),
        PENDING: ChainReading([pending], lambda answers: quantity(answers[0]) or 0),
        # The head block may be cached: this is that of the node that answers.
        BLOCK: ChainReading([head.NUMBER_CALL], lambda answers: quantity(answers[0]) or 0),
    }


def genesis_reading() -> ChainReading:
    """Return the reading of the hash of the first block, which is never cached."""
    call = Call("eth_getBlockByNumber", ["0x0", False])
    return ChainReading([call], lambda answers: answers[0].get("hash", "") if isinstance(answers[0], dict) else "")
