"""Who has rules, and what they say of a payload: the relayer, and the token that requested a transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from chain.nodes.plausibility import tip_limit
from chain.units import gwei
from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Forbidden
from relayers.models import Relayer
from spending import rules
from spending.models import SpendingPolicy
from spending.rules import Limit, Payload, Rules, Verdict
from transactions.models import Transaction
from transactions.records.networks import network_of

RELAYER, TOKEN = "relayer", "token"
GAS = "gas"
# The rules of limits by name; the name of a token's limit has the address of its contract.
LIMIT_RULES = {"value": "max_value_per_day", GAS: "max_gas_cost_per_day"}
LIMIT_WORDS = {"value": ("Value", " wei"), GAS: ("Gas cost of at most", " wei")}
TOKEN_LIMIT_RULE = "tokens.max_amount_per_day"  # noqa: S105  # not a password
SELECTOR_BYTES = 4
ABOVE_AUTOMATIC = "must not be above {}, the maximum of automatic prices: the relayer or the token has spending rules"
NO_POLICY = "The spending rules of the token that requested it no longer exist."

# The policy and the name of a limit.
Key = tuple[int, str]


@dataclass(frozen=True)
class Holder:
    """A relayer or a token with its rules."""

    name: str
    policy_id: int
    rules: Rules

    @cached_property
    def limits(self) -> list[Limit]:
        return rules.limits(self.rules)

    def key(self, limit: Limit) -> Key:
        return self.policy_id, limit.name


class SpendingRefused(Forbidden):
    """A spending rule does not allow a transaction. The text names the rule."""

    default_code = ErrorCode.SPENDING_REFUSED

    def __init__(self, holder: str, verdict: Verdict, relayer_pk: int, payload: Payload) -> None:
        super().__init__(refusal_text(holder, verdict))
        self.holder, self.verdict, self.relayer_pk, self.payload = holder, verdict, relayer_pk, payload


def refusal_text(holder: str, verdict: Verdict) -> str:
    return f"Refused by the spending rule {verdict.rule} of the {holder}: {verdict.text}"


def payload_of(row: Transaction, sender: str | None = None) -> Payload:
    return Payload(row.to or None, row.value, bytes(row.data), sender or None)


def selector(payload: Payload) -> str:
    """Return the function that a payload calls, "" if it calls none."""
    if payload.to is None or len(payload.data) < SELECTOR_BYTES:
        return ""
    return f"0x{payload.data[:SELECTOR_BYTES].hex()}"


def limit_rule(name: str) -> str:
    return LIMIT_RULES.get(name, TOKEN_LIMIT_RULE)


def has_policies(row: Transaction) -> bool:
    """Return whether a row can have charges: without rules there is nothing to read.

    A replaced row can have charges of the token that requested it before.
    """
    if row.payload_version > 1:
        return True
    return row.token_spending_id is not None or (row.relayer is not None and row.relayer.spending_id is not None)


def read_holders(relayer: Relayer, token_spending_id: int | None) -> list[Holder]:
    """Return the holders of rules for a new request, relayer first; one statement if the token has rules."""
    holders = []
    if relayer.spending_id is not None and relayer.spending is not None:
        holders.append(Holder(RELAYER, relayer.spending_id, relayer.spending.rules))
    if token_spending_id is not None:
        found = read_rules([token_spending_id])
        if token_spending_id not in found:
            raise Forbidden(NO_POLICY, ErrorCode.SPENDING_REFUSED)
        holders.append(Holder(TOKEN, token_spending_id, found[token_spending_id]))
    return holders


def limits_of(holders: Iterable[Holder]) -> list[tuple[Holder, Limit]]:
    return [(holder, limit) for holder in holders for limit in holder.limits]


def read_rules(policies: Iterable[int]) -> dict[int, Rules]:
    return dict(SpendingPolicy.objects.filter(pk__in=set(policies)).values_list("pk", "rules"))


def refusals(holders: Sequence[Holder], payload: Payload) -> Iterator[tuple[str, Verdict]]:
    """Yield the rules that do not allow a payload, whatever was spent before."""
    for holder in holders:
        yield from ((holder.name, each) for each in rules.verdicts(holder.rules, payload) if not each.allowed)


def ceiling_faults(values: Mapping[str, Any], relayer: Relayer, holders: Iterable[Holder]) -> dict[str, list[str]]:
    """Return the explicit prices that exceed what the service itself would pay, by field, if anyone has rules.

    Nothing is read from nodes. A gas price, all of which is paid, may be as high as one node is believed at once. The
    cap of the relayer is checked elsewhere.
    """
    if not any(holder.rules for holder in holders):
        return {}
    network = network_of(relayer)
    maximums = {"max_priority_fee_per_gas": network.tip_ceiling, "max_fee_per_gas": network.max_gas_price}
    maximums["gas_price"] = tip_limit(network.max_gas_price, 0)
    return {
        name: [ABOVE_AUTOMATIC.format(gwei(maximum))]
        for name, maximum in maximums.items()
        if values.get(name, 0) > maximum
    }


def limit_verdict(limit: Limit, used: int, amount: int) -> Verdict:
    """Return what a limit says of an amount, given what is used without it."""
    left = max(0, limit.maximum - used)
    what, unit = LIMIT_WORDS.get(limit.name) or (f"Amount of the {limit.name.replace(':', ' ')}:", "")
    text = f"{what} {amount}{unit}; {left} of {limit.maximum}{unit} are left in 24 hours."
    return Verdict(limit_rule(limit.name), used + amount <= limit.maximum, text)


def check_rules(holders: Sequence[Holder], row: Transaction, payload: Payload, relayer_pk: int) -> None:
    """Raise `SpendingRefused` if the rules of a holder do not allow a payload at all."""
    for name, verdict in chain(refusals(holders, payload), gas_refusals(holders, row)):
        raise SpendingRefused(name, verdict, relayer_pk, payload)


def gas_refusals(holders: Sequence[Holder], row: Transaction) -> Iterator[tuple[str, Verdict]]:
    """Yield the limits of gas that a request is never within: of 0, or below its own gas limit and price."""
    cost = (row.requested_gas_limit or 1) * int(row.gas_price_text or row.max_fee_text or 1)
    for holder, limit in limits_of(holders):
        if limit.name == GAS and cost > limit.maximum:
            text = f"Gas cost of at least {cost} wei; the maximum in 24 hours is {limit.maximum} wei."
            yield holder.name, Verdict(limit_rule(GAS), False, text)


def check_price_is_counted(row: Transaction, payload: Payload, token_spending_id: int | None) -> None:
    """Raise `SpendingRefused` if a token with a limit of gas raises the price of what does not count on it."""
    if token_spending_id is None or token_spending_id == row.token_spending_id:
        return
    for limit in rules.limits(read_rules([token_spending_id]).get(token_spending_id, {})):
        if limit.name == GAS:
            why = "The gas of a transaction that another token requested; replace it, so that it counts on this limit."
            raise SpendingRefused(TOKEN, Verdict(limit_rule(GAS), False, why), row.relayer_id or 0, payload)
