"""Calls of ERC-20 in words. Only tokens that staff have configured have a symbol and decimals; they are never guessed.

An app names configured tokens in its `AppConfig`: `symbols = "rpc.console.symbols.find"`.
"""

from collections.abc import Iterable, Mapping

from django.db.models import BinaryField
from django.db.models.functions import Substr

from relayer_service.amounts import decimal_text
from relayer_service.console.panels import declared
from spending.erc20 import TokenCall, decode
from transactions.models import Transaction
from transactions.records.networks import known_network

MAX_AMOUNT = 2**256 - 1
# Bytes that are read of calldata: one more than any of these calls has.
CALL_LENGTH = 101
MAX_SYMBOL_LENGTH = 16
# Symbol and decimals by network and address.
Symbols = Mapping[tuple[str, str], tuple[str, int]]


def words(row: Transaction, call: TokenCall, symbols: Symbols) -> str:
    """Return what a call does with how much of a token, without the accounts that it concerns."""
    verb, is_unlimited = "Approve spending of" if call.function == "approve" else "Transfer", call.amount == MAX_AMOUNT
    name, decimals = symbols.get(token_key(row), ("", 0))
    # Without characters that change how the text around them is read.
    symbol = "".join(each for each in name if each.isprintable())
    if len(symbol) > MAX_SYMBOL_LENGTH:
        symbol = f"{symbol[:MAX_SYMBOL_LENGTH]}…"
    amount = f"{decimal_text(call.amount, decimals)} {symbol}" if symbol else f"{call.amount:,} units"
    if is_unlimited:
        amount = f"an unlimited amount{f' of {symbol}' if symbol else ''}"
    return f"{verb} {amount}{'' if symbol else ' of an unverified token'}"


def token_key(row: Transaction) -> tuple[str, str]:
    network = known_network(row)
    return network.name if network else row.relayer.network if row.relayer else "", row.to


def find_symbols(rows: Iterable[Transaction]) -> Symbols:
    """Return the symbols of the configured tokens among the receivers of rows, with one query."""
    keys = {token_key(row) for row in rows}
    return {key: symbol for find in declared("symbols") for key, symbol in find(keys)} if keys else {}


def read_words(rows: Iterable[Transaction]) -> dict[int, str]:
    """Return the token calls among the rows of a list in words, by key: their large data is not read."""
    receivers = {row.pk: row for row in rows if row.to}
    start = Substr("data", 1, CALL_LENGTH, output_field=BinaryField())
    found = Transaction.objects.filter(pk__in=receivers).annotate(call=start).values_list("pk", "call").order_by()
    # SQLite has no part of empty data.
    calls = {pk: call for pk, data in found if data and (call := decode(bytes(data)))}
    symbols = find_symbols(receivers[pk] for pk in calls)
    return {pk: words(receivers[pk], call, symbols) for pk, call in calls.items()}
