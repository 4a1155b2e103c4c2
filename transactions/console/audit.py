"""Amounts of coins in the audit entries of transactions."""

from collections.abc import Collection
from functools import partial
from typing import Any

from chain.networks import Network
from relayer_service.audit.models import readable, type_of
from transactions.console import formatting
from transactions.models import Transaction
from transactions.records.networks import known_network


def show_units(entries: Collection[Any]) -> None:
    """Replace amounts in the entries of transactions that exist by those in the coin of their network."""
    own = [entry for entry in entries if entry.object_type == type_of(Transaction) and entry.changes]
    columns = ("lane__chain_id", "relayer__network", "relayer__chain_id")
    rows = Transaction.objects.filter(pk__in={entry.object_pk for entry in own}).select_related("lane", "relayer")
    known = {str(row.pk): known_network(row) for row in rows.only(*columns)} if own else {}
    for entry in own:
        entry.show = partial(shown, known.get(entry.object_pk))


def shown(network: Network | None, name: str, value: Any) -> str:
    return formatting.readable(readable(value), network, {}) if network else readable(value)
