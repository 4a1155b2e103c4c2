"""What a transaction counts once its status changes: when it was mined, what it cost, and what was not executed."""

from collections.abc import Iterable
from datetime import datetime

from chain import limits
from chain.fees.network_fees import KINDS
from chain.networks import Network
from relayer_service.database.updating import update_each
from spending import rules
from transactions.limits.counters import Counters
from transactions.limits.holders import GAS, has_policies, payload_of
from transactions.limits.windows import OPEN_HOUR, hour_of
from transactions.models import FINAL, NOOPS, Attempt, Charge, Status, Transaction
from transactions.records.networks import network_of
from transactions.records.payloads import payload
from transactions.records.signed_payloads import is_superseded

# A row with one of these counts otherwise than before; one in flight only if it was mined.
SETTLING = {Status.PENDING, Status.MINED, *FINAL}


def changes_charges(row: Transaction, status: str) -> bool:
    """Return whether a change to a status changes what a row counts; it is still as it was before."""
    return (status in SETTLING or row.status == Status.MINED) and has_policies(row)


def settle(rows: Iterable[Transaction], now: datetime) -> None:
    """Correct the charges of locked rows by their new status, in the transaction that writes it.

    Only of rows for which `changes_charges` was true before.
    """
    limited = {row.pk: row for row in rows}
    if not limited:
        return
    changed = []
    for charge in Charge.objects.filter(transaction__in=limited.keys()).select_related("limit"):
        row = limited[charge.transaction_id]
        hour, amount = counted_hour(row, now), amount_of(row, charge)
        if (hour, amount) != (charge.hour, int(charge.amount_text)):
            changed.append((charge, hour, amount))
    counters = Counters(sorted({(each.limit.policy_id, each.limit.name) for each, _, _ in changed}), now)
    for charge, hour, amount in changed:
        key = charge.limit.policy_id, charge.limit.name
        counters.add(key, charge.hour, -int(charge.amount_text))
        counters.add(key, hour, amount)
        charge.hour, charge.amount_text = hour, str(amount)
    counters.save()
    update_each([charge for charge, _, _ in changed], ["hour", "amount_text"])


def counted_hour(row: Transaction, now: datetime) -> int:
    """Return the hour that a row counts in: once final, the one in which it was first recorded as mined."""
    return hour_of(row.mined_at or row.finished_at or now) if row.status in FINAL else OPEN_HOUR


def amount_of(row: Transaction, charge: Charge) -> int:
    """Return what a row counts on a limit in its present status."""
    # One node alone does not release what may have been executed.
    is_released = row.corroborated_at is not None or row.last_attempt is None
    if row.status in FINAL and row.mined_attempt is None and is_released:
        return 0
    if charge.limit.name == GAS:
        return _gas(row, charge)
    if row.status not in FINAL or not is_released:
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
    reserved, attempt = int(charge.reserved_text), row.mined_attempt
    if attempt is None or row.relayer is None or row.gas_used is None or not row.effective_gas_price_text:
        return reserved
    gas, price = minimum_gas_and_price(row, attempt, network_of(row.relayer))
    cost = max(row.gas_used, gas) * max(int(row.effective_gas_price_text), price) + int(row.l1_fee_text or 0)
    # One that was found on the chain may cost more than was reserved for those that are known.
    maximum = attempt.gas_limit * int(attempt.gas_price_text or attempt.max_fee_text or 0)
    return min(cost or reserved, max(reserved, maximum))


def minimum_gas_and_price(row: Transaction, attempt: Attempt, network: Network) -> tuple[int, int]:
    """Return what the payload and the signed price of a mined attempt use at least, whatever a node reports.

    A gas price is paid exactly, and of the others the tip: only nodes report the base fee. Where tips are ignored, the
    base fee is all that is paid, so no price is certain; where gas is not Ethereum's, no gas is.
    """
    model, gas = KINDS[network.kind], 0
    if model.has_ethereum_gas:
        # If a replacement came too late, the row gets its former payload back once it is final.
        is_other = attempt.purpose in NOOPS or is_superseded(row, attempt)
        gas = limits.TRANSFER_GAS if is_other else limits.minimum_gas(payload(network, {}, row), network)
    price = attempt.gas_price_text or attempt.max_priority_fee_text
    return gas, int(price or 0) if model.pays_priority_fee else 0
