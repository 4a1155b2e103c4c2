"""The guard of what transactions in flight depend on: it refuses changes of relayers that would break them."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.module_loading import import_string

from relayer_service.storage.selections import Selection
from relayers.models import Relayer

# Relayers that the guard is asked about at once.
BATCH_SIZE = 2_000
# Columns that the guard can refuse to change, with their API names: they decide for which account who signs.
GUARDED_COLUMNS = {
    "signer": "signer_id",
    "network": "network",
    "network_type": "network_type",
    "chain_id": "chain_id",
    "address": "address",
}

FUNDS_OTHERS = "Relayer {} funds the relayer {}. Remove the top-up of that relayer, or choose another funding relayer."


class DeletionRefused(Exception):
    """A relayer cannot be deleted now; the message is the reason."""


class MissingFunds(NamedTuple):
    """What all transactions need that wait for funds."""

    # In wei; None if it is unknown.
    amount: int | None
    # Whether more is missing: not all of these transactions are counted.
    is_minimum: bool = False


class Guard(ABC):
    @abstractmethod
    def refusals(self, relayers: Collection[int]) -> dict[int, str]:
        """Return, by relayer, why it cannot be deleted and its guarded columns cannot be changed now.

        In a transaction, whose caller has locked the relayers, the answer stays true until its end.
        """

    @abstractmethod
    def note_change(self, relayers: Collection[int], columns: Collection[str]) -> None:
        """Follow a change of relayers in the transaction that makes it; the caller has locked them."""

    @abstractmethod
    def has_sent(self, address: str) -> bool:
        """Return whether an account has sent anything, even if its relayer has another one now or is deleted."""

    @abstractmethod
    def status(self, relayer: int) -> dict[str, Any]:
        """Return the fields of a relayer's status that depend on this work."""

    @abstractmethod
    def missing_funds(self, relayers: Collection[int]) -> dict[int, MissingFunds]:
        """Return what is missing of each of these relayers that waits for funds."""

    @abstractmethod
    def waiting_for_funds(self) -> QuerySet[Any, Any]:
        """Return a query for the primary keys of the relayers that wait for funds."""

    @abstractmethod
    def halted_chains(self) -> dict[int, datetime]:
        """Return the chains that have had no new block for too long, and when they had the last one."""


def get_guard() -> Guard:
    guard: Guard = import_string("transactions.repair.guards.LaneGuard")()
    return guard


def refusals(relayers: Collection[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for batch in Selection.from_keys(relayers).batches(BATCH_SIZE):
        found = {**get_guard().refusals(batch), **found}
    return found


def check_change(relayer: int, columns: Collection[str]) -> None:
    """Raise `ValidationError` if the guard refuses the change of a relayer."""
    changed = [name for column, name in GUARDED_COLUMNS.items() if column in columns]
    if changed and (reasons := refusals([relayer])):
        raise ValidationError({changed[0]: reasons[relayer]})


def note_change(relayers: Collection[int], columns: Collection[str]) -> None:
    for batch in Selection.from_keys(relayers).batches(BATCH_SIZE):
        get_guard().note_change(batch, columns)


def funding_refusals(relayers: Collection[int]) -> dict[int, str]:
    """Return, by relayer, why it cannot be deleted or move to another chain: it funds others."""
    funded = Relayer.objects.filter(funding_relayer__in=relayers).order_by("-pk")
    names: Any = funded.values_list("funding_relayer", "funding_relayer__identifier", "identifier")
    return {funding: FUNDS_OTHERS.format(name, other) for funding, name, other in names}


def release(relayers: Collection[int]) -> None:
    """Detach relayers that are about to be deleted; raise `DeletionRefused` if the guard refuses."""
    for reason in (refusals(relayers) | funding_refusals(relayers)).values():
        raise DeletionRefused(reason)
    note_change(relayers, GUARDED_COLUMNS)
