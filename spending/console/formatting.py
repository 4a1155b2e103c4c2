"""Spending rules in words, as the admin shows them to staff who cannot change them."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.html import format_html_join

from relayer_service.amounts import Currency
from spending.console.currencies import find_on_network
from spending.rules import Rules
from spending.writes import PREFIX

AMOUNTS = {
    "max_value": "Value of a transaction",
    "max_value_per_day": "Value within 24 hours",
    "max_gas_cost_per_day": "Cost of gas within 24 hours",
}
LISTS = ("receivers", "tokens")
TOKEN_AMOUNTS = {"max_amount": "per transaction", "max_amount_per_day": "within 24 hours"}


def shown_rules(rules: Rules, coin: Currency, network: str | None = None) -> str:
    """Return rules as HTML, a line for each; those of a relayer with the symbols of its network's tokens."""
    tokens = find_on_network(network, [token["contract"] for token in rules.get("tokens", ())])
    shown = ((line,) for line in lines(rules, coin, tokens))
    return format_html_join("", '<div class="break-all">{}</div>', shown) or "none"


def shown_rule(name: str, value: Any, coin: Currency, tokens: Mapping[str, Currency]) -> str | None:
    """Return a rule as `audited_rules` has it; None if it is not a value of one, such as a truncated one."""
    rule = name.removeprefix(PREFIX)
    if rule in AMOUNTS and str(value).isdecimal():
        return coin.show(int(value))
    is_listed = rule in LISTS and name != rule and isinstance(value, list)
    return "; ".join(lines({rule: value}, coin, tokens)) if is_listed else None


def audited_contracts(changes: Mapping[str, Any]) -> set[str]:
    """Return the contracts of the tokens in the changes of an audit entry."""
    values = changes.get(f"{PREFIX}tokens", ())
    return {token["contract"] for rules in values if isinstance(rules, list) for token in rules}


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
