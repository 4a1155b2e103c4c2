"""Why the chain does not answer a question: errors of this package, in words that are safe to show to a caller."""

from __future__ import annotations


class ChainFault(Exception):
    """The chain gave no usable answer. The text names no URL and repeats nothing that a node said."""


class NodesUnreachable(ChainFault):
    """No node answered; `reasons` says why of each, and names none of them."""

    def __init__(self, reasons: str) -> None:
        super().__init__(f"No node has answered: {reasons}.")
        self.reasons = reasons


class ExecutionReverted(ChainFault):
    """The transaction would fail on the chain."""


class InsufficientData(ChainFault):
    """A node answered, but not with what was asked for."""
