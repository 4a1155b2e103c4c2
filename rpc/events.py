"""Events of fee tokens, about the whole service."""

from typing import TypedDict

from notifications.events import Event


class PriceData(TypedDict):
    network: str
    symbol: str
    # Why it could not be read; empty once it can be read again.
    reason: str


PRICE_FAILED = Event("price.failed", PriceData, "The price of a fee token cannot be read.")
PRICE_RECOVERED = Event("price.recovered", PriceData, "The price of a fee token can be read again.")
