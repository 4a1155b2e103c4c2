"""Amounts of coins in the audit entries of relayers."""

from collections.abc import Collection
from functools import partial
from typing import Any

from chain.networks import Network, networks
from chain.units import coins
from relayer_service.audit.models import readable, type_of
from relayers.models import Relayer
from relayers.policy_fields import shown_policy
from spending.console.formatting import AMOUNTS

IN_COINS = {"reserve", *(f"spending_rules.{name}" for name in AMOUNTS)}


def show_units(entries: Collection[Any]) -> None:
    """Replace amounts in the entries of relayers that exist by those in the units of their networks, as forms show."""
    own = [entry for entry in entries if entry.object_type == type_of(Relayer)]
    rows = Relayer.objects.filter(pk__in={entry.object_pk for entry in own})
    known = {str(pk): name for pk, name in rows.values_list("pk", "network")}
    for entry in own:
        if name := known.get(entry.object_pk):
            entry.show = partial(shown, networks().get(name))


def shown(network: Network | None, name: str, value: Any) -> str:
    if name in IN_COINS and str(value).isdecimal():
        return coins(int(value), network)
    is_amount = name.startswith("policies.") and type(value) is int
    return shown_policy(name.removeprefix("policies."), value, network) if is_amount else readable(value)
