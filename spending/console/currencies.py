"""The currencies of ERC-20 contracts. Only tokens that staff have configured have a symbol and decimals.

An app names configured tokens in its `AppConfig`: `symbols = "rpc.console.formatting.find_symbols"`.
"""

from collections.abc import Collection, Mapping

from relayer_service.amounts import MAX_DIGITS, TOKEN_UNITS, Currency
from relayer_service.console.panels import declared

UNLIMITED = 2**256 - 1
MAX_SYMBOL_LENGTH = 16
# By network and address.
Currencies = Mapping[tuple[str, str], Currency]


def find_currencies(keys: Collection[tuple[str, str]]) -> Currencies:
    """Return the currencies of the configured tokens among networks and addresses, with one query."""
    found = [entry for find in declared("symbols") for entry in find(keys)] if keys else []
    currencies = {key: Currency(readable_symbol(symbol), decimals) for key, (symbol, decimals) in found}
    return {key: currency for key, currency in currencies.items() if is_writable(currency)}


def find_on_network(network: str | None, contracts: Collection[str]) -> dict[str, Currency]:
    """Return the currency of each contract on a network; without a network, all are unknown."""
    found = find_currencies({(network, contract) for contract in contracts}) if network else {}
    return {contract: found.get((network or "", contract), Currency()) for contract in contracts}


def is_writable(currency: Currency) -> bool:
    """Return whether amounts can be entered as they are shown."""
    return bool(currency.symbol) and currency.symbol.lower() not in TOKEN_UNITS and currency.decimals < MAX_DIGITS


def readable_symbol(name: str) -> str:
    """Return a symbol without characters that change how the text around it is read."""
    symbol = "".join(each for each in name if each.isprintable())
    return f"{symbol[:MAX_SYMBOL_LENGTH]}…" if len(symbol) > MAX_SYMBOL_LENGTH else symbol


def shown_amount(amount: int, currency: Currency) -> str:
    return "unlimited" if amount == UNLIMITED else currency.show(amount)
