"""What a transfer can cost its relayer, read from the nodes before anything is locked."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from chain.errors import ChainFault
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from transactions.lanes.prices.context import read_context
from transactions.lanes.prices.market import Sender
from transactions.lanes.prices.planning import Account, Send, plan
from transactions.models import Transaction
from transactions.records.routing import UNREADABLE_NODES

# Of a transaction that is only planned here.
NO_KEY = 0
# `sending` compares with the true one.
UNLIMITED = 2**256
NO_NODES = "The nodes of the relayer {} do not answer: {}"


@dataclass(frozen=True)
class Quote:
    """The maximum cost of a transaction with its gas, and the balance of who pays it; or why it cannot be sent."""

    cost: int = 0
    balance: int = 0
    # The transaction count of who pays, which the balance was read with.
    count: int = 0
    fault: str = ""


def quote(relayer: Relayer, receiver: str, amount: int, now: datetime) -> Quote:
    """Plan the transaction as the lane of the relayer would. No query: it is called in threads."""
    if not relayer.address:
        return Quote(fault=f"The relayer {relayer.identifier} has no address.")
    row = Transaction(pk=NO_KEY, to=receiver, value_text=str(amount), valid_until=now + timedelta(hours=1))
    try:
        context = read_context(Sender.of(relayer, relayer.address), [row], now)
    except DecryptionError:
        return Quote(fault=NO_NODES.format(relayer.identifier, UNREADABLE_NODES))
    except ChainFault as fault:
        return Quote(fault=NO_NODES.format(relayer.identifier, fault))
    (decision,) = plan(context, [row], Account(UNLIMITED, in_flight_cost=0, room=1, has_unmined=False))
    if isinstance(decision, Send):
        return Quote(decision.max_cost, context.account.balance, context.account.count)
    return Quote(fault=f"The relayer {relayer.identifier} cannot send it: {decision.reason}")
