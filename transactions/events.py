"""Events of transactions and lanes. A status that is not in `BY_STATUS` sends no webhook."""

from typing import Any, TypeVar

from notifications.events import Event
from relayers.events import RelayerData, RelayerEvent
from transactions.models import Status
from transactions.records.representation import TransactionData


class TransactionChangeData(TransactionData):
    # Who requested it, such as `token payments`, and why, if a reason was sent.
    actor: str
    reason: str


SentData = TypeVar("SentData", bound=TransactionData)


class TransactionEvent(Event[SentData]):
    extension = "transactions"

    def subject(self, data: SentData) -> str:
        return data["relayer_id"]


class StatusEvent(TransactionEvent[TransactionData]):
    component = "Transaction"

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, TransactionData, description)


class RequestedEvent(TransactionEvent[TransactionChangeData]):
    """What someone requested of a transaction was done."""

    base_component = "Transaction"

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, TransactionChangeData, description)


TRANSACTION_SUBMITTED = StatusEvent("transaction.submitted", "A node accepted a transaction, or knows it already.")
TRANSACTION_MINED = StatusEvent("transaction.mined", "A transaction is in a block. A reorg can undo this.")
TRANSACTION_CONFIRMED = StatusEvent(
    "transaction.confirmed", "A transaction succeeded, at the network's number of confirmations."
)
TRANSACTION_FAILED = StatusEvent("transaction.failed", "A transaction reverted or will never be executed.")
TRANSACTION_CANCELED = RequestedEvent("transaction.canceled", "A transaction was canceled before it was executed.")
TRANSACTION_EXPIRED = StatusEvent("transaction.expired", "A transaction was not executed before `valid_until`.")
TRANSACTION_REORGED = StatusEvent(
    "transaction.reorged", "A reorg removed the block of a transaction. It is broadcast again."
)
TRANSACTION_REPLACED = RequestedEvent(
    "transaction.replaced", "A transaction has a new payload and hash, as requested."
)
TRANSACTION_CONTRADICTED = StatusEvent(
    "transaction.contradicted", "The chain contradicts the final status of a transaction."
)


Data = TypeVar("Data", bound=RelayerData)


class SendingEvent(RelayerEvent[Data]):
    extension = "transactions"


class RefusalData(RelayerData):
    # Who requested it, such as `token payments`, and why it was refused.
    actor: str
    reason: str
    # A rule of the relayer or of the token.
    rule: str
    rule_of: str
    requested_by: str
    to: str | None
    selector: str | None
    # How many were refused since the last event of this rule, relayer and token, within the hour; with this one.
    count: int


TRANSACTION_REFUSED = SendingEvent(
    "transaction.refused", RefusalData, "A spending rule refused a transaction: nothing is sent."
)

BY_STATUS: dict[str, TransactionEvent[Any]] = {
    Status.SUBMITTED: TRANSACTION_SUBMITTED,
    Status.MINED: TRANSACTION_MINED,
    Status.CONFIRMED: TRANSACTION_CONFIRMED,
    Status.FAILED: TRANSACTION_FAILED,
    Status.CANCELED: TRANSACTION_CANCELED,
    Status.EXPIRED: TRANSACTION_EXPIRED,
}


class LaneHoldData(RelayerData):
    # Who held or released it, such as `user anna` or a task of the worker.
    actor: str
    reason: str
    details: str


class NonceUsedData(RelayerData):
    nonce: int
    hash: str


RELAYER_HELD = SendingEvent("relayer.held", LaneHoldData, "A relayer sends no new transactions until it is released.")
RELAYER_RELEASED = SendingEvent("relayer.released", LaneHoldData, "A relayer sends new transactions again.")
RELAYER_NONCE_USED = SendingEvent(
    "relayer.nonce_used", NonceUsedData, "A nonce of a relayer's account was used by another program."
)
