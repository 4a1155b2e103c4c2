"""Calls of ERC-20 in words."""

from collections.abc import Iterable

from django.db.models import BinaryField
from django.db.models.functions import Substr
from django.utils.html import format_html

from chain.units import SIGNIFICANT_DIGITS
from relayer_service.amounts import Currency
from spending.console.currencies import UNLIMITED, Currencies, find_currencies, shown_amount
from spending.erc20 import TokenCall, decode
from transactions.console.formatting import token_call
from transactions.models import Transaction
from transactions.records.networks import known_network

# The start of calldata: one byte more than the longest of these calls has, so that no longer one is taken for it.
CALL_START = Substr("data", 1, 101, output_field=BinaryField())


def words(row: Transaction, call: TokenCall, currencies: Currencies, *, is_rounded: bool = False) -> str:
    """Return what a call does with how much of a token, without the accounts that it concerns.

    A rounded amount has the exact one as its tooltip.
    """
    currency = currencies.get(token_key(row), Currency())
    verb = "Approve spending of" if call.function == "approve" else "Transfer"
    amount = exact_amount(call.amount, currency)
    if call.amount == UNLIMITED:
        amount = f"an unlimited amount{f' of {currency.symbol}' if currency.symbol else ''}"
    elif is_rounded:
        shown = currency.show(call.amount, SIGNIFICANT_DIGITS)
        amount = format_html('<span class="amount" title="{}">{}</span>', amount, shown)
    return format_html("{} {}{}", verb, amount, "" if currency.symbol else " of an unverified token")


def exact_amount(amount: int, currency: Currency) -> str:
    return shown_amount(amount, currency) if currency.symbol or amount == UNLIMITED else f"{amount:,} units"


def token_key(row: Transaction) -> tuple[str, str]:
    network = known_network(row)
    return network.name if network else row.relayer.network if row.relayer else "", row.to


def find_symbols(rows: Iterable[Transaction]) -> Currencies:
    """Return the currencies of the configured tokens among the receivers of rows, with one query."""
    return find_currencies({token_key(row) for row in rows if row.to})


def read_words(rows: Iterable[Transaction]) -> tuple[dict[int, str], Currencies]:
    """Return the token calls among the rows of a list in words with their accounts, by key, and their currencies.

    Their large data is not read.
    """
    receivers = {row.pk: row for row in rows if row.to}
    found = Transaction.objects.filter(pk__in=receivers).annotate(call=CALL_START).values_list("pk", "call").order_by()
    # SQLite has no part of empty data.
    calls = {pk: (call, data) for pk, data in found if data and (call := decode(bytes(data)))}
    currencies = find_symbols(receivers[pk] for pk in calls)
    shown: dict[int, str] = {}
    for pk, (call, data) in calls.items():
        row = receivers[pk]
        # All of it: no decoded call is longer.
        row.data = data
        shown[pk] = token_call(row, call, words(row, call, currencies, is_rounded=True), is_short=True)
    return shown, currencies
