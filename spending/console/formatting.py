"""Spending rules in words, as the admin shows them to staff who cannot change them."""

from collections.abc import Callable, Iterator

from django.utils.html import format_html_join

from spending.rules import Rules

LINE = '<div class="break-all">{}</div>'
AMOUNTS = {
    "max_value": "Value of a transaction",
    "max_value_per_day": "Value within 24 hours",
    "max_gas_cost_per_day": "Cost of gas within 24 hours",
}


def shown_rules(rules: Rules, show: Callable[[int], str] = "{} wei".format) -> str:
    """Return rules as HTML, a line for each."""
    return format_html_join("", LINE, ((line,) for line in lines(rules, show))) or "none"


def lines(rules: Rules, show: Callable[[int], str]) -> Iterator[str]:
    for name, label in AMOUNTS.items():
        if name in rules:
            yield f"{label}: at most {show(int(rules[name]))}"
    if rules.get("receivers") == []:
        yield "Receivers: only the tokens below" if rules.get("tokens") else "Receivers: none"
    for receiver in rules.get("receivers", ()):
        calls = ", ".join("no data" if each == "0x" else each for each in receiver.get("selectors", ()))
        yield f"Receiver {receiver['address']}: {calls or 'every call'}"
    for token in rules.get("tokens", ()):
        limits = [f"at most {token['max_amount']} per transaction"] if "max_amount" in token else []
        limits += [f"at most {token['max_amount_per_day']} within 24 hours"] if "max_amount_per_day" in token else []
        limits += [f"to {', '.join(token['recipients'])}"] if "recipients" in token else []
        yield f"Token {token['contract']}: {'; '.join(limits)}"
