"""What a transaction counts once its status changes: the real cost of its gas, and nothing that was not executed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from relayer_service.storage.updating import update_each
from spending import rules
from transactions.models import FINAL, NOOPS, Charge, Status, Transaction
from transactions.spending.counters import Counters
from transactions.spending.holders import GAS, has_policies, payload_of

# A row with one of these counts otherwise than before; one in flight only if it was mined.
SETTLING = {Status.PENDING, Status.MINED, *FINAL}


def changes_charges(row: Transaction, status: str) -> bool:
    """Return whether a change to a status changes what a row counts; it is still as it was before."""
    return (status in SETTLING or row.status == Status.MINED) and has_policies(row)


def settle(rows: Iterable[Transaction], now: datetime) -> None:
    """Correct the charges of locked rows by their new status, in the transaction that writes it.

    Only of rows for which `changes_charges` was true before.

    The hours stay: what is released leaves the hour that it was counted in.
    """
    limited = {row.pk: row for row in rows}
    if not limited:
        return
    changed = []
    for charge in Charge.objects.filter(transaction__in=limited.keys()).select_related("limit"):
        amount = amount_of(limited[charge.transaction_id], charge)
        if amount != int(charge.amount_text):
            changed.append((charge, amount))
    if not changed:
        return
    counters = Counters(sorted({(each.limit.policy_id, each.limit.name) for each, _ in changed}), now)
    for charge, amount in changed:
        key = charge.limit.policy_id, charge.limit.name
        counters.add(key, charge.hour, amount - int(charge.amount_text))
        charge.amount_text = str(amount)
    counters.save()
    update_each([charge for charge, _ in changed], ["amount_text"])


def amount_of(row: Transaction, charge: Charge) -> int:
    """Return what a row counts on a limit in its present status."""
    if row.status in FINAL and row.mined_attempt is None:
        return 0
    if charge.limit.name == GAS:
        return _gas(row, charge)
    if row.status not in FINAL:
        return int(charge.reserved_text)
    assert row.mined_attempt is not None
    if row.mined_attempt.purpose in NOOPS:
        return 0
    # Of several payloads, the row has the one that was mined. If another token requested it, it is not limited here.
    return min(rules.amounts(payload_of(row)).get(charge.limit.name, 0), int(charge.reserved_text))


def _gas(row: Transaction, charge: Charge) -> int:
    if row.status == Status.PENDING:
        # Its nonce was finally used by another transaction: no attempt can be mined.
        return 0
    if row.mined_attempt is None or row.gas_used is None or not row.effective_gas_price_text:
        return int(charge.reserved_text)
    return row.gas_used * int(row.effective_gas_price_text) + int(row.l1_fee_text or 0)
