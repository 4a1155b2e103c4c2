"""Why the chain does not answer a question: errors of this package, in words that are safe to show to a caller."""


class ChainFault(Exception):
    """The chain gave no usable answer. The text names no URL and repeats nothing that a node said."""


class NodesUnreachable(ChainFault):
    """No node answered; `reasons` says why of each, and names none of them."""

    def __init__(self, reasons: str) -> None:
        super().__init__(f"No node has answered: {reasons}.")
        self.reasons = reasons


class ExecutionReverted(ChainFault):
    """The transaction would fail on the chain."""


class CannotBeIncluded(ExecutionReverted):
    """No block would take the transaction as it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The transaction cannot be included: {reason}.")


class PriceCapTooLow(ChainFault):
    """At the price cap nothing is included in the next block. `base_fee` is a number, or "at least" a number."""

    def __init__(self, cap: int, base_fee: str) -> None:
        super().__init__(
            f"The price cap is {cap} wei, below the next base fee of {base_fee} wei: nothing would be included at "
            "that price."
        )
        self.cap = cap
        self.base_fee = base_fee


class InsufficientData(ChainFault):
    """A node answered, but not with what was asked for."""
