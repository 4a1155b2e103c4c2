"""The errors of this package. Their messages are safe to return to API clients."""


class ChainFault(Exception):
    """No usable answer of the chain. The message contains no URL and no text of a node."""


class NodesUnreachable(ChainFault):
    """No node answered; `reasons` has the fault of each, without its URL."""

    def __init__(self, reasons: str, head_time: int | None = None) -> None:
        super().__init__(f"No node answered: {reasons}.")
        self.reasons = reasons
        # If all have answered, with head blocks that are too old: the time of the newest.
        self.head_time = head_time


class ExecutionReverted(ChainFault):
    """The transaction would fail; `data` is what its contract reverted with."""

    def __init__(self, message: str, data: bytes = b"", *, is_unfunded: bool = False) -> None:
        super().__init__(message)
        self.data = data
        # Whether the sender's balance is the reason: no fault of the transaction.
        self.is_unfunded = is_unfunded


class CannotBeIncluded(ExecutionReverted):
    """No block would include the transaction."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The transaction cannot be included: {reason}.")


class PriceCapTooLow(ChainFault):
    """The price cap is below the next base fee. Both are with their units, and the base fee may be "at least" one."""

    def __init__(self, cap: str, base_fee: str) -> None:
        super().__init__(f"The price cap of {cap} is below the next base fee of {base_fee}.")
        self.cap = cap
        self.base_fee = base_fee


class InsufficientData(ChainFault):
    """A node answered without the required data."""
