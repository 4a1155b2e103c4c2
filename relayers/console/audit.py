"""Amounts of coins and tokens in the audit entries of relayers."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from chain.networks import Network, networks
from chain.units import coin, coins
from relayer_service.amounts import Currency
from relayer_service.audit.models import readable, type_of
from relayers.models import Relayer
from relayers.policy_fields import shown_policy
from spending.console.currencies import find_currencies
from spending.console.formatting import audited_contracts, shown_rule

IN_COINS = {"reserve", "top_up.minimum", "top_up.target", "top_up.daily_limit"}


def show_units(entries: Collection[Any]) -> None:
    """Replace amounts in the entries of relayers that exist by those in the units of their networks, as forms show."""
    own = [entry for entry in entries if entry.object_type == type_of(Relayer)]
    rows = Relayer.objects.filter(pk__in={entry.object_pk for entry in own})
    known = {str(pk): name for pk, name in rows.values_list("pk", "network")}
    contracts = {entry: audited_contracts(entry.changes) for entry in own if entry.object_pk in known}
    found = find_currencies({(known[entry.object_pk], each) for entry, names in contracts.items() for each in names})
    for entry, names in contracts.items():
        name = known[entry.object_pk]
        tokens = {contract: found.get((name, contract), Currency()) for contract in names}
        entry.show = partial(shown, networks().get(name), tokens)


def shown(network: Network | None, tokens: Mapping[str, Currency], name: str, value: Any) -> str:
    if name in IN_COINS and str(value).isdecimal():
        return coins(int(value), network)
    if name.startswith("policies.") and type(value) is int:
        return shown_policy(name.removeprefix("policies."), value, network)
    return shown_rule(name, value, coin(network), tokens) or readable(value)
