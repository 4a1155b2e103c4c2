"""What the decisions of a turn depend on besides its rows, read from the nodes in one batch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chain import limits
from chain.errors import ChainFault, InsufficientData
from chain.fees.gas_estimate import GasEstimate
from chain.fees.network_fees import KINDS
from chain.networks import Network
from chain.nodes import head
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from chain.readings import ChainReading
from transactions.lanes.prices.market import GasMarket, MarketPrice, Sender, checked, read_market
from transactions.lanes.prices.simulation import GAS, buffered_gas, noop_reading, row_readings
from transactions.limits.budgets import Budget, GasBudget
from transactions.models import Transaction

# The names of readings of an account.
BALANCE, COUNT, PENDING_COUNT, BLOCK = "balance", "count", "pending count", "block"
NOOP_GAS, GENESIS = "no-op gas", "genesis"


@dataclass(frozen=True)
class AccountState:
    """The account of a sender, as one node reports it."""

    balance: int
    # Its transaction count: the next nonce to be mined.
    count: int
    # The count with pending transactions, of other programs too: 0 from a node that does not report it.
    pending_count: int = 0
    # The newest block of the node, which may be behind the head block that is cached.
    block: int | None = None


@dataclass(frozen=True)
class TurnContext:
    """Who sends, what nodes report, and what may be spent. Instead of a value that they do not report, it has a fault.

    Nothing in it is changed by the decisions of a turn, but for what is left of its budget.
    """

    sender: Sender
    market: GasMarket
    account: AccountState
    now: datetime
    # What was read of each row, by its primary key: the gas estimate, and charges on top of gas.
    rows: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    # None if it was not read.
    noop_estimate: GasEstimate | ChainFault | None = None
    # The hash of the first block, where chains can be replaced.
    genesis: str = ""
    # None without spending rules.
    budget: Budget | None = None

    @property
    def network(self) -> Network:
        return self.sender.network

    @property
    def policies(self) -> Mapping[str, Any]:
        return self.sender.policies

    def price(self, row: Transaction) -> MarketPrice:
        """Return the market price for the speed of a row; raise a `ChainFault` if it is unknown."""
        return self.market.price(row.speed, self.rows.get(row.pk, {}).get(GAS))

    def gas(self, row: Transaction) -> int:
        """Return the gas estimate of a row; raise the `ChainFault` if it has none."""
        estimate: GasEstimate = checked(self.rows[row.pk][GAS])
        return estimate.gas

    def charges(self, row: Transaction) -> dict[str, Any]:
        """Return what was read of the charges of a row; raise the `ChainFault` of one that is unknown."""
        return {name: checked(value) for name, value in self.rows.get(row.pk, {}).items() if name != GAS}

    def noop_gas(self) -> int:
        """Return the gas limit of a no-op; raise a `ChainFault` if it is unknown."""
        if isinstance(self.noop_estimate, GasEstimate):
            return buffered_gas(self.network, self.noop_estimate.gas, self.market.head.gas_limit)
        model = KINDS[self.network.kind]
        if model.has_l1_gas or not model.has_ethereum_gas:
            raise self.noop_estimate or InsufficientData("The gas of a no-op is unknown.")
        # A transfer without data needs exactly this much, and one that reverts closes its nonce, too.
        return limits.TRANSFER_GAS

    def gas_budget(self, row: Transaction) -> GasBudget | None:
        return self.budget.gas_budget(row) if self.budget else None


def read_context(
    sender: Sender,
    rows: Sequence[Transaction],
    now: datetime,
    budget: Budget | None = None,
    *,
    needs_noop: bool = False,
    needs_genesis: bool = False,
) -> TurnContext:
    """Read what it takes to plan pending rows and to review those in flight; raise the fault of the account."""
    own = {row.pk: row_readings(sender, row) for row in rows}
    readings: dict[Any, ChainReading] = {**account_readings(sender.address)}
    for pk, each in own.items():
        readings |= {_key(pk, name, reading): reading for name, reading in each.items()}
    if needs_noop:
        readings[NOOP_GAS] = noop_reading(sender)
    if needs_genesis:
        readings[GENESIS] = genesis_reading()
    market, values = read_market(sender, readings)
    # A genesis that could not be read is not another one.
    genesis = values.get(GENESIS)
    return TurnContext(
        sender,
        market,
        read_account(values),
        now,
        {pk: {name: values[_key(pk, name, each)] for name, each in found.items()} for pk, found in own.items()},
        values.get(NOOP_GAS),
        genesis if isinstance(genesis, str) else "",
        budget,
    )


def _key(pk: int, name: str, reading: ChainReading) -> Hashable:
    """Return what names a reading in the batch: one that is cached is shared by rows."""
    return name if reading.key is not None else (pk, name)


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
        BALANCE: ChainReading([before, balance, after], lambda answers: read(answers[1:2], "balance")),
        COUNT: ChainReading([before, after], lambda answers: read(answers, "transaction count")),
        PENDING_COUNT: ChainReading([pending], lambda answers: quantity(answers[0]) or 0),
        BLOCK: ChainReading([head.NUMBER_CALL], lambda answers: quantity(answers[0]) or 0),
    }


def read_account(values: Mapping[Hashable, Any]) -> AccountState:
    """Return the account from its readings; raise the fault of the balance or the count."""
    pending, block = values[PENDING_COUNT], values[BLOCK]
    return AccountState(
        checked(values[BALANCE]),
        checked(values[COUNT]),
        pending if isinstance(pending, int) else 0,
        block if isinstance(block, int) else None,
    )


def genesis_reading() -> ChainReading:
    """Return the reading of the hash of the first block, which is never cached."""
    call = Call("eth_getBlockByNumber", ["0x0", False])
    return ChainReading([call], lambda answers: answers[0].get("hash", "") if isinstance(answers[0], dict) else "")
