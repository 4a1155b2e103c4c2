"""Writing spending rules, as part of the write of the relayer or token that holds them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from relayer_service.writes import Row, Write
from spending.models import SpendingPolicy

# Of rules in the audit log.
PREFIX = "spending_rules."
# What the audit log has for an empty list.
NO_ENTRIES = "none"
NO_GAS_LIMIT = "without max_gas_cost_per_day, the cost of gas is not limited"


class HolderWrite(Write[Row]):
    """The write of a row whose `spending` is its policy: created with the first rules, and kept without rules.

    Rules are saved with the row, which its writers lock. They must not be joined to it: a statement that waits for the
    lock reads the row again, but what is joined as it was before.
    """

    changes_rules = False

    def set_rules(self, rules: Mapping[str, Any]) -> None:
        """Set valid rules, which replace the stored ones."""
        row: Any = self.row
        if rules == stored_rules(row):
            return
        if rules and "max_gas_cost_per_day" not in rules:
            self.warnings.append(("spending_rules", NO_GAS_LIMIT))
        if row.spending is None:
            row.spending = SpendingPolicy()
        row.spending.rules = dict(rules)
        self.columns.add("spending")
        self.changes_rules = True

    @classmethod
    def save_rows(cls, writes: Sequence[Self]) -> None:
        for write in writes:
            if write.changes_rules:
                policy: SpendingPolicy = write.row.spending  # type: ignore[attr-defined]  # of a holder
                policy.save()
        super().save_rows(writes)


def stored_rules(holder: Any) -> dict[str, Any]:
    rules: dict[str, Any] = holder.spending.rules if holder.spending else {}
    return rules


def audited_rules(holder: Any) -> dict[str, Any]:
    """Return the rules of a relayer or token by name, for the audit log."""
    return {f"{PREFIX}{name}": audited_list(value) for name, value in stored_rules(holder).items()}


def audited_list(value: Any) -> Any:
    """Return a value for the audit log, which ignores empty lists; an empty list of receivers refuses all."""
    return NO_ENTRIES if value == [] else value
