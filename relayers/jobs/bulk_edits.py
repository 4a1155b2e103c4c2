"""Changes of many relayers, by the rules of a single change.

The changes are those of a job, by name; what is left out stays as it is. Amounts are texts such as `0.5 ETH` or empty.
`notification` is a primary key or None. A list is changed by `["add" | "remove" | "set", [...]]`, or removed by None.
`top_up` is None, or has amounts and the primary key `funding_relayer_id`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet

from chain.networks import networks
from notifications.models import Notification
from relayer_service.audit.recording import snapshot
from relayer_service.audit.values import differences
from relayer_service.storage.selections import Selection
from relayer_service.tags import validate_tags
from relayer_service.writes import Values
from relayers.health.probes import ProbeCache
from relayers.models import Relayer
from relayers.policies import MAX_RECEIVERS
from relayers.policy_fields import FORM_FIELDS, RESERVE_FORM_FIELD, AmountField
from relayers.serializers.top_ups import AMOUNT_FIELDS
from relayers.writes import UNKNOWN, RelayerWrite

NODES, WEBHOOK, MINIMUM, RESERVE = "custom_rpc_urls", "notification", "min_balance", "reserve"
GAS_CAP, EIP1559, WHITELIST = "gas_price_cap", "eip1559_pricing", "whitelist_receivers"
RULES, TOP_UP, SIGNING, TAGS = "spending_rules", "top_up", "allow_signing", "tags"
ADD, REMOVE, SET = "add", "remove", "set"
CHANGE, FUND, VIEW_WEBHOOKS = (
    "relayers.change_relayer",
    "transactions.add_transaction",
    "notifications.view_notification",
)
# The permissions besides that to change relayers, as for changing one: nodes decide what is sent again.
REQUIRED = {NODES: FUND, TOP_UP: FUND, WEBHOOK: VIEW_WEBHOOKS}
TOP_UP_AMOUNTS = [*AMOUNT_FIELDS]
AMOUNTS = {
    **{name: FORM_FIELDS[name] for name in (MINIMUM, GAS_CAP)},
    RESERVE: RESERVE_FORM_FIELD,
    **{f"{TOP_UP}.{name}": AmountField(each) for name, each in AMOUNT_FIELDS.items()},
}
# How many relayers a preview reads.
PREVIEWED = 1_000
PREVIEW_BATCH = 250

Found = TypeVar("Found", Notification, Relayer)


@dataclass(frozen=True)
class BulkEdit:
    """The changes of a job, with the rows that they refer to and the answers of nodes, for a few relayers."""

    changes: Mapping[str, Any]
    answers: ProbeCache = field(default_factory=ProbeCache)

    @cached_property
    def webhook(self) -> Notification | None:
        return find(Notification, {"pk": self.changes[WEBHOOK]}, "notification_id")

    @cached_property
    def funding(self) -> Relayer | None:
        return find(Relayer, {"pk": self.changes[TOP_UP]["funding_relayer_id"]}, "top_up.funding_relayer_id")

    def __call__(self, relayer: Relayer) -> RelayerWrite:
        """Return the write of a relayer; raise `ValidationError` if a rule is violated."""
        write = RelayerWrite(relayer)
        write.answers = self.answers
        write.change(self.values(relayer))
        return write

    def values(self, relayer: Relayer) -> Values:
        """Return the changes of one relayer by API name."""
        found: dict[str, Any] = {name: self.changes[name] for name in (NODES, RULES, SIGNING) if name in self.changes}
        if WEBHOOK in self.changes:
            found["notification_id"] = self.webhook
        if RESERVE in self.changes:
            found[RESERVE] = typed_amount(relayer, RESERVE, self.changes[RESERVE])
        if TAGS in self.changes:
            found[TAGS] = changed_list(relayer.tags, self.changes[TAGS])
            validate_tags(found[TAGS] or [])
        if TOP_UP in self.changes:
            found[TOP_UP] = self._top_up(relayer)
        if self.changes.keys() & FORM_FIELDS.keys():
            found["policies"] = self._policies(relayer)
        return found

    def _top_up(self, relayer: Relayer) -> Values | None:
        if (typed := self.changes[TOP_UP]) is None:
            return None
        amounts = {name: typed_amount(relayer, f"{TOP_UP}.{name}", typed[name]) for name in TOP_UP_AMOUNTS}
        return {"funding_relayer_id": self.funding, **amounts}

    def _policies(self, relayer: Relayer) -> dict[str, Any]:
        policies = {**relayer.policies}
        for name in (MINIMUM, GAS_CAP):
            if name in self.changes:
                policies[name] = typed_amount(relayer, name, self.changes[name])
        if EIP1559 in self.changes:
            policies[EIP1559] = self.changes[EIP1559]
        if WHITELIST in self.changes:
            policies[WHITELIST] = receivers = changed_list(policies.get(WHITELIST), self.changes[WHITELIST])
            if receivers and len(receivers) > MAX_RECEIVERS:
                raise ValidationError({"policies": f"at most {MAX_RECEIVERS:,} receivers are allowed"})
        return {name: value for name, value in policies.items() if value is not None}


def find(model: type[Found], key: Mapping[str, Any], name: str) -> Found | None:
    """Return the row that a field refers to, None if to none; raise `ValidationError` if the row is gone."""
    if None in key.values():
        return None
    found: Found | None = model._default_manager.filter(**key).first()
    if found is None:
        raise ValidationError({name: UNKNOWN})
    return found


def changed_list(stored: Collection[str] | None, change: tuple[str, list[str]] | None) -> list[str] | None:
    """Return a list after a change. One that becomes empty stays: without its whitelist, a relayer sends to all."""
    if change is None:
        return None
    how, given = change
    if how == SET:
        return given
    if how == ADD:
        known = {each.lower() for each in stored or ()}
        return [*(stored or ()), *(each for each in given if each.lower() not in known)]
    removed = {each.lower() for each in given}
    return None if stored is None else [each for each in stored if each.lower() not in removed]


def typed_amount(relayer: Relayer, name: str, text: str) -> int | None:
    """Return an amount in wei; the coin in the text must be the coin of the relayer's network."""
    field: Any = copy(AMOUNTS[name])
    field.show_in(networks().get(relayer.network), None)
    try:
        found: int | None = field.clean(text)
    except ValidationError as error:
        raise ValidationError(f"{name}: {'; '.join(error.messages)}") from None
    return found


def edited_rows() -> QuerySet[Relayer]:
    """Return relayers as a write needs them. What it can change is not joined: see `HolderWrite`."""
    rows = Relayer.objects.select_related("signer", "health")
    return rows.prefetch_related("notification", "funding_relayer", "spending", "tag_rows")


def save(key: int, prepare: Callable[[Relayer], RelayerWrite], reason: str) -> bool:
    """Change a relayer, as it is by now; return whether anything is different. Raise `ValidationError`."""
    with transaction.atomic():
        row = edited_rows().select_for_update(of=("self",)).filter(pk=key).first()
        if row is None:
            return False
        write = prepare(row)
        write.lock()
        write.save(reason)
    return bool(write.fields)


@dataclass
class Group:
    """Relayers that would change alike, or that would be refused for the same reason."""

    network: str
    changes: Mapping[str, Any]
    fault: str
    rows: list[Relayer] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return "refused" if self.fault else "changed" if self.changes else "unchanged"


def preview(
    selection: Selection, prepare: Callable[[Relayer], RelayerWrite]
) -> tuple[list[Group], Iterable[tuple[str, int]]]:
    """Return what would happen to the first `PREVIEWED` relayers, and each warning with how many it is about."""
    groups: dict[str, Group] = {}
    warnings: dict[str, int] = {}
    for keys in Selection.from_keys(selection.first(PREVIEWED)).batches(PREVIEW_BATCH):
        for relayer in edited_rows().filter(pk__in=keys).order_by("pk"):
            group = Group(relayer.network, {}, "")
            try:
                write = prepare(relayer)
            except ValidationError as error:
                group.fault = "; ".join(error.messages)
            else:
                group.changes = differences(write.before, snapshot(relayer)) if write.fields else {}
                for text in dict.fromkeys(text for _, text in write.warnings):
                    warnings[text] = warnings.get(text, 0) + 1
            groups.setdefault(f"{group.network} {group.fault} {group.changes}", group).rows.append(relayer)
    return [*groups.values()], warnings.items()
