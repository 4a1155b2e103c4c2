"""What to do with the pending transactions of a lane: pure functions from rows and readings to decisions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from chain import limits
from chain.errors import ChainFault, ExecutionReverted, InsufficientData
from chain.fees.network_fees import KINDS
from chain.transactions import NotATransaction, Prices
from chain.transactions import Transaction as Payload
from chain.units import coins
from relayer_service.amounts import Amount
from relayers.policies import PolicyRefused, check_receiver
from transactions.lanes.prices.bumping import price_noop
from transactions.lanes.prices.context import TurnContext
from transactions.lanes.prices.market import Sender
from transactions.lanes.prices.pricing import PriceTooHigh, first_price, maximum
from transactions.lanes.prices.simulation import buffered_gas, check_block_limit, is_simulated
from transactions.models import AT_LEAST, Transaction, Waiting
from transactions.records import payloads
from transactions.records.states import Cause

MAX_WAIT_SECONDS = 60
SHORTAGE = "{} missing{}. {} can cost {}, and the balance is {}{}."
KEPT, RESERVED = "{} is kept for transactions in flight", "{} is kept as the relayer's reserve"


@dataclass(frozen=True)
class Account:
    """The account of a lane, as far as planning depends on it."""

    balance: int
    # The maximum that the attempts in flight can cost, in wei.
    in_flight_cost: int
    # How many nonces can be assigned now.
    room: int
    # Whether requests that were accepted earlier have a nonce and are not mined.
    has_unmined: bool
    # The newest block that the account's nonce was read at: a simulation on an older one proves nothing.
    block: int = 0
    # The sequence number of the first request of the lane that has no nonce.
    first_pending: int | None = None


@dataclass(frozen=True)
class Send:
    row: Transaction
    gas_limit: int
    prices: Prices
    # With value and charges for L1, in wei.
    max_cost: int
    # How much more a no-op would cost that replaces it now, if a spending limit counts gas.
    noop_extra: int = 0


class MissingFunds(NamedTuple):
    """Why the balance does not cover what a lane has to send, and the missing amount in wei, if that is known."""

    details: str
    amount: int | None = None
    # The maximum that the transaction can cost, in wei.
    cost: int = 0


@dataclass(frozen=True)
class Wait:
    row: Transaction
    reason: str
    seconds: float
    missing: MissingFunds | None = None
    is_over_limit: bool = False


@dataclass(frozen=True)
class Closing:
    """A row that ends without a nonce."""

    row: Transaction
    cause: Cause
    reason: str
    revert_data: bytes = b""


Decision = Send | Wait | Closing


def plan(context: TurnContext, rows: Sequence[Transaction], account: Account) -> list[Decision]:
    """Return a decision for each row, in order.

    A row that has to wait is overtaken by the following ones. Rows for which there is no room have no decision.
    """
    planner = _Planner(context, account)
    decisions = [planner.decide(row) for row in rows]
    return [decision for decision in decisions if decision is not None]


def plan_replacement(context: TurnContext, row: Transaction, prices: Prices, account: Account) -> Send | str:
    """Return how to send the new payload of a row in flight at this price, or why that is not possible yet.

    `account` does not include the cost of the row. A payload that cannot be sent is tried again: unlike a row without
    a nonce, it is not failed, as the payload before may be mined.
    """
    return _Planner(context, account).replace(row, prices)


class _Unfunded(Exception):
    """The balance does not cover a row."""

    def __init__(self, missing: MissingFunds) -> None:
        super().__init__(f"{Waiting.FUNDS.label}: {missing.details}")
        self.missing = missing


class _OverLimit(Exception):
    """A spending limit does not allow a row now."""


class _Planner:
    """The decisions of one plan: each leaves less room and less funds for the next."""

    def __init__(self, context: TurnContext, account: Account) -> None:
        self.context, self.account = context, account
        self.network, self.policies, self.budget = context.network, context.policies, context.budget
        self.model = KINDS[context.network.kind]
        self.room = account.room
        self.reserved = account.in_flight_cost
        # Whether a revert may be due to an earlier transaction that is not mined yet.
        self.has_unmined = account.has_unmined

    def decide(self, row: Transaction) -> Decision | None:
        if self.room <= 0:
            return None
        decision = self._decide(row)
        if isinstance(decision, Send):
            self.room -= 1
            self.reserved += decision.max_cost
        self.has_unmined |= isinstance(decision, Send | Wait)
        return decision

    def replace(self, row: Transaction, prices: Prices) -> Send | str:
        transaction = payloads.payload(self.network, self.policies, row)
        try:
            self._check(transaction)
            gas_limit = self._gas_limit(row, transaction)
            cost = transaction.value + gas_limit * maximum(prices) + self._charges(row, gas_limit)
            self._check_funds(cost)
            return Send(row, gas_limit, prices, cost, self._noop_extra(row, gas_limit, prices))
        except (PolicyRefused, NotATransaction) as error:
            return _sentence(str(error))
        except (ChainFault, _Unfunded) as error:
            return str(error)

    def _decide(self, row: Transaction) -> Decision:
        transaction = payloads.payload(self.network, self.policies, row)
        try:
            self._check(transaction)
            # The rules may have been tightened after it was accepted.
            if self.budget and (refusal := self.budget.refusal(row)):
                return Closing(row, Cause.REFUSED, refusal)
            return self._send(row, transaction)
        except (PolicyRefused, NotATransaction) as error:
            return Closing(row, Cause.REFUSED, _sentence(str(error)))
        except _OverLimit as error:
            return replace(_wait(row, str(error)), is_over_limit=True)
        except PriceTooHigh as error:
            return _wait(row, str(error))
        except _Unfunded as error:
            return _wait(row, str(error), error.missing)
        except ExecutionReverted as fault:
            return self._reverted(row, fault)
        except ChainFault as fault:
            return _wait(row, str(fault))

    def _check(self, transaction: Payload) -> None:
        """Raise an error if the row can never be sent under the policies and the rules of the network."""
        check_receiver(self.policies, transaction)
        limits.check(transaction, self.network)
        limits.check_size(transaction, self.network)
        minimum = self.model.minimum_gas(transaction, self.network)
        if transaction.gas and transaction.gas < minimum:
            raise NotATransaction(f"its gas limit is {transaction.gas}, and it needs at least {minimum}")

    def _send(self, row: Transaction, transaction: Payload) -> Send:
        refusal = None
        try:
            gas_limit = self._gas_limit(row, transaction)
        except ChainFault as fault:
            if isinstance(fault, ExecutionReverted) and not fault.is_unfunded:
                raise
            # Nodes have many errors for missing funds: with the minimum gas, check whether that is the reason.
            refusal, gas_limit = fault, transaction.gas or limits.minimum_gas(transaction, self.network)
        prices = first_price(self.network, self.policies, row, self.context.price(row))
        gas_cost = gas_limit * maximum(prices) + self._charges(row, gas_limit)
        cost = transaction.value + gas_cost
        self._check_funds(cost)
        if isinstance(refusal, ExecutionReverted):
            raise _Unfunded(MissingFunds(str(refusal), cost=cost))
        if refusal is not None:
            raise refusal
        noop_extra = self._noop_extra(row, gas_limit, prices)
        self._check_limits(row, gas_cost + noop_extra)
        return Send(row, gas_limit, prices, cost, noop_extra)

    def _check_limits(self, row: Transaction, gas_cost: int) -> None:
        if self.budget is None:
            return
        if shortage := self.budget.shortage(row, gas_cost):
            raise _OverLimit(shortage)
        self.budget.spend(row, gas_cost)

    def _noop_extra(self, row: Transaction, gas_limit: int, prices: Prices) -> int:
        if self.budget is None or self.budget.gas_budget(row) is None:
            return 0
        try:
            noop_gas, noop_prices = price_noop(self.context, [], prices)
        except ChainFault:
            # Its own fault would count as one of the row.
            raise InsufficientData("The gas of a no-op is unknown.") from None
        return max(0, noop_gas * maximum(noop_prices) - gas_limit * maximum(prices))

    def _gas_limit(self, row: Transaction, transaction: Payload) -> int:
        """Return the gas limit: that of the client, or the estimate with its buffer."""
        block_gas_limit = self.context.market.head.gas_limit
        # Before the simulation, which nodes refuse above the limit of a block, each in its own words.
        check_block_limit(self.network, transaction.gas, block_gas_limit)
        if is_simulated(self.policies, row):
            estimate = self.context.gas(row)
            if not transaction.gas:
                return buffered_gas(self.network, estimate, block_gas_limit)
        return transaction.gas

    def _charges(self, row: Transaction, gas_limit: int) -> int:
        """Return the maximum of the charges on top of gas, for L1 and for an operator."""
        if self.model.has_l1_gas:
            return 0
        gas, margin_bps = Amount(gas_limit, gas_limit), self.network.l1_fee_margin_bps
        charges = self.model.charges(self.context.charges(row), gas, margin_bps)
        return math.ceil(charges.l1_fee.maximum + charges.operator_fee.maximum)

    def _check_funds(self, cost: int) -> None:
        if missing := missing_funds(self.context.sender, self.account.balance, self.reserved, [cost]):
            raise _Unfunded(missing)

    def _reverted(self, row: Transaction, fault: ExecutionReverted) -> Decision:
        """Return the decision for a row that would revert: final only if nothing can change that."""
        if self.has_unmined or (self.account.first_pending or row.sequence) < row.sequence:
            return _wait(row, f"{fault} It is simulated again, as earlier transactions are not mined yet.")
        if (self.context.account.block or 0) < self.account.block:
            return _wait(row, f"{fault} It is simulated again, as the node is behind.")
        return Closing(row, Cause.REFUSED, str(fault), fault.data)


def missing_funds(
    sender: Sender, balance: int, kept: int, costs: Sequence[int], *, is_minimum: bool = False
) -> MissingFunds | None:
    """Return what is missing for transactions that can cost so much, or None if the balance covers them all.

    It is a minimum if there are others whose cost is unknown.
    """
    cost = sum(costs)
    missing = cost + kept + sender.reserve - balance
    if missing <= 0:
        return None
    total, needed, owned = (coins(each, sender.network) for each in (missing, cost, balance))
    held = [(KEPT, kept), (RESERVED, sender.reserve)]
    unavailable = [text.format(coins(each, sender.network)) for text, each in held if each]
    words = f", of which {' and '.join(unavailable)}" if unavailable else ""
    count, who = f" for {len(costs):,} transactions", "They"
    if is_minimum:
        total, count = f"{AT_LEAST}{total}", " for all transactions that wait"
    elif len(costs) == 1:
        count, who = "", "It"
    return MissingFunds(SHORTAGE.format(total, count, who, needed, owned, words), missing, cost)


def backoff(tries: int) -> float:
    """Return the seconds until a row that had to wait is considered again."""
    return float(min(2 ** min(tries, MAX_WAIT_SECONDS), MAX_WAIT_SECONDS))


def _wait(row: Transaction, reason: str, missing: MissingFunds | None = None) -> Wait:
    return Wait(row, reason, backoff(row.tries), missing)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"The transaction cannot be included: {text}."
