"""Spending rules in the audit entries of tokens: on any network, so that amounts of tokens have no symbol."""

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from relayer_service.amounts import COINS, Currency
from relayer_service.audit.models import readable, type_of
from spending.console.formatting import shown_rule
from tokens.models import AccessToken


def show_units(entries: Collection[Any]) -> None:
    for entry in entries:
        if entry.object_type == type_of(AccessToken):
            entry.show = shown


def shown(name: str, value: Any) -> str:
    return shown_rule(name, value, COINS, defaultdict(Currency)) or readable(value)
