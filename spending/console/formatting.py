"""Spending rules in words, as the admin shows them to staff who cannot change them."""

from collections.abc import Iterator, Mapping

from django.utils.html import format_html_join

from relayer_service.amounts import Currency
from spending.console.currencies import find_on_network
from spending.rules import Rules

LINE = '<div class="break-all">{}</div>'
AMOUNTS = {
    "max_value": "Value of a transaction",
    "max_value_per_day": "Value within 24 hours",
    "max_gas_cost_per_day": "Cost of gas within 24 hours",
}
TOKEN_AMOUNTS = {"max_amount": "per transaction", "max_amount_per_day": "within 24 hours"}


def shown_rules(rules: Rules, coin: Currency, network: str | None = None) -> str:
    """Return rules as HTML, a line for each; those of a relayer with the symbols of its network's tokens."""
    tokens = find_on_network(network, [token["contract"] for token in rules.get("tokens", ())])
    return format_html_join("", LINE, ((line,) for line in lines(rules, coin, tokens))) or "none"


def lines(rules: Rules, coin: Currency, tokens: Mapping[str, Currency]) -> Iterator[str]:
    for name, label in AMOUNTS.items():
        if name in rules:
            yield f"{label}: at most {coin.show(int(rules[name]))}"
    if rules.get("receivers") == []:
        yield "Receivers: only the tokens below" if rules.get("tokens") else "Receivers: none"
    for receiver in rules.get("receivers", ()):
        calls = ", ".join("no data" if each == "0x" else each for each in receiver.get("selectors", ()))
        yield f"Receiver {receiver['address']}: {calls or 'every call'}"
    for token in rules.get("tokens", ()):
        limits = [
            f"at most {tokens[token['contract']].show(int(token[name]))} {period}"
            for name, period in TOKEN_AMOUNTS.items()
            if name in token
        ]
        limits += [f"to {', '.join(token['recipients'])}"] if "recipients" in token else []
        yield f"Token {token['contract']}: {'; '.join(limits)}"
