"""Amounts of a network's coin and prices of gas as people write and read them; all others are whole numbers of wei."""

from chain.networks import Network
from relayer_service.amounts import GWEI, WEI_UNITS, Currency, decimal_text

SIGNIFICANT_DIGITS = 6
# In wei, a thousandth of a gwei: lower prices are shown in wei.
TINY_PRICE = 10**6


def coin(network: Network | None) -> Currency:
    """Return the coin of a network; of an unknown one, its symbol and decimals are unknown."""
    return Currency(network.symbol, network.decimals, WEI_UNITS) if network else Currency(units=WEI_UNITS)


def coins(value: int, network: Network | None) -> str:
    """Return an amount of wei in coins of a network, or in wei if it is tiny or the network is unknown."""
    return coin(network).show(value)


def rounded_coins(value: int, network: Network | None, *, up: bool = False) -> str:
    """Return an amount of wei as `coins` does, but with the first digits only, rounded down or up."""
    return coin(network).show(value, SIGNIFICANT_DIGITS, up=up)


def gwei(price: int) -> str:
    """Return a price of gas, in wei if it is tiny."""
    if 0 < price < TINY_PRICE:
        return f"{price} wei"
    return f"{decimal_text(price, WEI_UNITS[GWEI])} {GWEI}"


def amount(text: str, network: Network | None) -> int | str:
    """Return an amount with or without a unit in wei, and any other text as it is, for the validators to refuse."""
    return coin(network).parse(text)
