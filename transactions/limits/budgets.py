"""What transactions of a lane may still spend: read when a turn is planned, and with locks when it is committed."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from relayer_service.database.updating import update_each
from relayers.models import Relayer
from spending import rules
from spending.rules import Limit, Payload, Rules, Verdict
from transactions.limits.counters import Counters
from transactions.limits.holders import (
    GAS,
    NO_POLICY,
    RELAYER,
    TOKEN,
    Holder,
    Key,
    SpendingRefused,
    ceiling_faults,
    check_rules,
    limit_rule,
    limit_verdict,
    limits_of,
    payload_of,
    read_rules,
    refusal_text,
    refusals,
)
from transactions.limits.windows import OPEN_HOUR
from transactions.models import Charge, Transaction


class GasBudget(NamedTuple):
    """What is left of a limit of gas, in wei, and the rule in words."""

    left: int
    words: str


class Budget:
    """The rules, limits and charges of rows of one relayer. Without rules, everything is allowed and nothing read."""

    def __init__(
        self,
        relayer: Relayer | None,
        rows: Collection[Transaction],
        now: datetime,
        *,
        lock: bool,
        former: int | None = None,
    ) -> None:
        self._relayer_policy = relayer.spending_id if relayer is not None else None
        self._sender, self._relayer = relayer.address if relayer is not None else None, relayer
        policies = {self._relayer_policy, former, *(row.token_spending_id for row in rows)} - {None}
        self.is_limited = bool(policies)
        self._rules: dict[int, Rules] = {}
        self._amounts: dict[int, dict[str, int]] = {}
        self._charges: dict[tuple[int, Key], Charge] = {}
        if not self.is_limited:
            return
        self._rules = read_rules(each for each in policies if each is not None)
        self._amounts = {row.pk: rules.amounts(payload_of(row)) for row in rows}
        self._charges = {
            (charge.transaction_id, (charge.limit.policy_id, charge.limit.name)): charge
            for charge in Charge.objects.filter(transaction__in=[row.pk for row in rows]).select_related("limit")
        }
        # Also those whose charges end: every lock of the transaction is taken here, in one order.
        keys = {key for _, key in self._charges} | self._keys(rows)
        self._counters = Counters(sorted(keys), now, lock=lock)
        self._added: list[Charge] = []
        self._changed: dict[int, Charge] = {}

    def _keys(self, rows: Iterable[Transaction]) -> set[Key]:
        found = {holder.key(limit) for holder, limit in limits_of(self._relayer_holders()) if limit.name == GAS}
        for row in rows:
            names = {GAS, *(name for name, amount in self._amounts[row.pk].items() if amount)}
            found |= {holder.key(limit) for holder, limit in limits_of(self.holders(row)) if limit.name in names}
        return found

    def _relayer_holders(self) -> list[Holder]:
        policy = self._relayer_policy
        return [] if policy is None else [Holder(RELAYER, policy, self._rules[policy])]

    def holders(self, row: Transaction) -> list[Holder]:
        found, token = self._relayer_holders(), row.token_spending_id
        if token is not None and token in self._rules:
            found.append(Holder(TOKEN, token, self._rules[token]))
        return found

    def refusal(self, row: Transaction) -> str:
        """Return why a row can never be sent under the current rules, or ""."""
        if not self.is_limited:
            return ""
        if row.token_spending_id is not None and row.token_spending_id not in self._rules:
            return NO_POLICY
        payload = payload_of(row, self._sender)
        for name, verdict in refusals(self.holders(row), payload):
            return refusal_text(name, verdict)
        for holder, limit, amount in self._wanted(row):
            verdict = limit_verdict(limit, 0, amount)
            if not verdict.allowed:
                return refusal_text(holder.name, verdict)
        return self.price_refusal(row)

    def price_refusal(self, row: Transaction) -> str:
        """Return why a row cannot be sent at the prices that its client set, or ""."""
        if self._relayer is None:
            return ""
        texts = {"gas_price": row.gas_price_text, "max_fee_per_gas": row.max_fee_text}
        texts["max_priority_fee_per_gas"] = row.max_priority_fee_text
        values = {name: int(text or 0) for name, text in texts.items()}
        faults = ceiling_faults(values, self._relayer, self.holders(row))
        return next((f"Its {name} {fault}." for name, (fault,) in faults.items()), "")

    def shortage(self, row: Transaction, gas_cost: int) -> str:
        """Return which limit a row without a nonce has to wait for, or "" if it is within all of them."""
        for holder, limit, amount in self._wanted(row, gas_cost):
            verdict = self._verdict(row, holder, limit, amount)
            if not verdict.allowed:
                rule = f"the spending rule {verdict.rule} of the {holder.name}"
                return f"Waiting for {rule}: {verdict.text}"
        return ""

    def gas_budget(self, row: Transaction) -> GasBudget | None:
        """Return how much more the gas of a row in flight may cost; None without a limit."""
        found = [
            GasBudget(limit.maximum - self._counters.used(holder.key(limit)), f"the {holder.name}'s {limit_rule(GAS)}")
            for holder, limit in self._gas_limits(row)
        ]
        return min(found) if found else None

    def exceeds_gas(self, row: Transaction, gas_cost: int) -> bool:
        """Return whether another attempt of a row in flight exceeds a limit of gas."""
        return any(
            not self._verdict(row, holder, limit, max(gas_cost, self._reserved(row, holder.key(limit)))).allowed
            for holder, limit in self._gas_limits(row)
        )

    def _gas_limits(self, row: Transaction) -> list[tuple[Holder, Limit]]:
        return [(holder, limit) for holder, limit in limits_of(self.holders(row)) if limit.name == GAS]

    def spend(self, row: Transaction, gas_cost: int) -> None:
        """Count a row that gets a nonce: its amounts, and its gas at the maximum."""
        for holder, limit, amount in self._wanted(row, gas_cost):
            self._set(row, holder.key(limit), amount)

    def spend_amounts(self, row: Transaction) -> None:
        """Count the amounts of a row in flight: the maximum of its payloads."""
        for holder, limit, amount in self._wanted(row):
            key = holder.key(limit)
            self._set(row, key, max(amount, self._reserved(row, key)))

    def spend_gas(self, row: Transaction, gas_cost: int) -> None:
        """Count the gas of another attempt of a row, of which one is executed: the maximum of all. Never refused."""
        for holder, limit in self._gas_limits(row):
            key = holder.key(limit)
            if gas_cost > self._reserved(row, key):
                self._set(row, key, gas_cost)

    def replace(self, row: Transaction, payload: Payload) -> None:
        """Reserve the amounts of another payload; raise `SpendingRefused` if a rule does not allow it.

        Until one is mined, the maximum of both counts. A row without a nonce has only the new payload, and counts
        nothing for another token that requested the one before.
        """
        relayer_pk, payload = row.relayer_id or 0, replace(payload, sender=self._sender)
        holders = self.holders(row)
        check_rules(holders, row, payload, relayer_pk)
        self._amounts[row.pk] = rules.amounts(payload)
        for holder, limit in limits_of(holders):
            if limit.name == GAS:
                continue
            key, amount = holder.key(limit), self._amounts[row.pk].get(limit.name, 0)
            if row.nonce is not None:
                amount = max(amount, self._reserved(row, key))
            verdict = self._verdict(row, holder, limit, amount)
            if amount and not verdict.allowed:
                raise SpendingRefused(holder.name, verdict, relayer_pk, payload)
            if amount or (row.pk, key) in self._charges:
                self._set(row, key, amount)
        if row.nonce is None:
            own = {holder.policy_id for holder in holders}
            for pk, key in list(self._charges):
                if pk == row.pk and key[0] not in own:
                    self._set(row, key, 0)

    def save(self) -> None:
        if not self.is_limited:
            return
        self._counters.save()
        for charge in self._added:
            key = next(key for (_, key), each in self._charges.items() if each is charge)
            charge.limit = self._counters.limit(key)
        Charge.objects.bulk_create(self._added)
        update_each([*self._changed.values()], ["hour", "amount_text", "reserved_text"])
        self._added, self._changed = [], {}

    def _wanted(self, row: Transaction, gas_cost: int | None = None) -> list[tuple[Holder, Limit, int]]:
        """Return what a row counts on each limit.

        A cost of 0 counts as well: over the limit of gas, not even a price of 0 gets a nonce, as a no-op may have to
        take it later, and that is never refused.
        """
        found = limits_of(self.holders(row))
        amounts = {**self._amounts[row.pk], **({} if gas_cost is None else {GAS: gas_cost})} if found else {}
        return [(holder, limit, amounts[limit.name]) for holder, limit in found if limit.name in amounts]

    def _verdict(self, row: Transaction, holder: Holder, limit: Limit, amount: int) -> Verdict:
        key = holder.key(limit)
        charge = self._charges.get((row.pk, key))
        own = self._counters.counts(charge) if charge else 0
        return limit_verdict(limit, self._counters.used(key) - own, amount)

    def _reserved(self, row: Transaction, key: Key) -> int:
        charge = self._charges.get((row.pk, key))
        return int(charge.reserved_text) if charge else 0

    def _set(self, row: Transaction, key: Key, amount: int) -> None:
        """Replace what an open row counts by this amount."""
        charge = self._charges.get((row.pk, key))
        if charge is None:
            charge = Charge(transaction=row)
            self._charges[row.pk, key] = charge
            self._added.append(charge)
        elif (charge.hour, charge.amount_text, charge.reserved_text) == (OPEN_HOUR, str(amount), str(amount)):
            return
        else:
            self._counters.add(key, charge.hour, -int(charge.amount_text))
            if charge.pk is not None:
                self._changed[charge.pk] = charge
        self._counters.add(key, OPEN_HOUR, amount)
        charge.hour, charge.amount_text, charge.reserved_text = OPEN_HOUR, str(amount), str(amount)


def recharge(row: Transaction, payload: Payload, now: datetime, former: int | None = None) -> None:
    """Reserve what another payload of a locked row counts, in the transaction that replaces it.

    `former` is the spending policy of the token that requested the payload before.

    Raise `SpendingRefused` if a rule does not allow it; `refusals.recorded` reports that after the rollback.
    """
    assert transaction.get_connection().in_atomic_block
    budget = Budget(row.relayer, [row], now, lock=True, former=former)
    budget.replace(row, payload)
    budget.save()
