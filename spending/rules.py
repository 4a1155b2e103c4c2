"""What spending rules say of a payload or of typed data to sign. Pure functions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from relayer_service.evm import checksummed
from spending import erc20
from spending.shape import NO_DATA, validate_rules
from spending.typed_data import read_contract, read_permit

__all__ = [
    "Limit", "Payload", "Rules", "Verdict", "amounts", "limits", "message_verdicts", "typed_data_verdicts",
    "validate_rules", "verdicts",
]  # fmt: skip

# As `validate_rules` returns them.
Rules = Mapping[str, Any]

VALUE, GAS, TOKEN = "value", "gas", "token:{}"
HASH_BYTES = 32
# At most this many of a list are named in a text.
MAX_NAMED = 3


@dataclass(frozen=True)
class Payload:
    to: str | None
    value: int
    data: bytes
    # The account that sends it, if it is known.
    sender: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What one rule says of a payload. `rule` is a stable name; the text is safe to show to a caller."""

    rule: str
    allowed: bool
    text: str


@dataclass(frozen=True)
class Limit:
    """A maximum per rolling 24 hours: of `value`, of `gas` cost, or of `token:` and the address of a contract."""

    name: str
    maximum: int


def verdicts(rules: Rules, payload: Payload) -> list[Verdict]:
    """Return what each rule says that needs no counter. All must allow the payload."""
    judges = (_value_verdicts, _own_account_verdicts, _receiver_verdicts, _token_verdicts)
    return [verdict for judge in judges for verdict in judge(rules, payload)]


def limits(rules: Rules) -> list[Limit]:
    """Return the maximums per rolling 24 hours."""
    tokens = {TOKEN.format(token["contract"]): token.get("max_amount_per_day") for token in rules.get("tokens", ())}
    maximums = {VALUE: rules.get("max_value_per_day"), GAS: rules.get("max_gas_cost_per_day"), **tokens}
    return [Limit(name, int(maximum)) for name, maximum in maximums.items() if maximum is not None]


def amounts(payload: Payload) -> dict[str, int]:
    """Return what a payload counts against limits, by name, without gas and without zeros.

    An approval counts with its whole amount, as the spender can transfer it without another transaction.
    """
    found = {VALUE: payload.value}
    if payload.to is not None and (call := erc20.decode(payload.data)):
        found[TOKEN.format(checksummed(payload.to))] = call.amount
    return {name: amount for name, amount in found.items() if amount}


def message_verdicts(rules: Rules, size: int) -> list[Verdict]:
    """Return what the rules say of a message to sign, of so many bytes.

    Smart accounts and many other contracts take a message that is a hash as the consent to a call. Of some 2^27 hashes
    one is valid text, so a caller finds a suitable one in a minute.
    """
    text = f"A message of {size} bytes; not allowed: {HASH_BYTES}, as it could be the hash of a call."
    return [Verdict("messages", size != HASH_BYTES, text)] if rules else []


def typed_data_verdicts(rules: Rules, typed_data: Mapping[str, Any] | None) -> list[Verdict]:
    """Return what the rules say of typed data to sign; the caller compares its chain with the relayer's.

    None stands for two bare hashes. Any rule refuses typed data for contracts that are not listed.
    """
    if not rules:
        return []
    if typed_data is None:
        return [Verdict("typed_data", False, "Two hashes to sign; allowed: full typed data for a listed contract.")]
    contract = read_contract(typed_data)
    if contract is None:
        text = "Typed data whose hash does not commit to a verifyingContract and a chainId in the standard's format"
        return [Verdict("typed_data", False, f"{text}; allowed: typed data for a listed contract.")]
    receiver, token = _entry(rules, "receivers", contract), _entry(rules, "tokens", contract)
    listed = [*(entry["contract"] for entry in rules.get("tokens", ()))]
    # A signature could do what the selectors refuse.
    listed += [entry["address"] for entry in rules.get("receivers", ()) if "selectors" not in entry]
    is_listed = contract in listed and "selectors" not in (receiver or {})
    found = [Verdict("typed_data", is_listed, f"Typed data for {contract}; allowed: {_named(listed)}.")]
    return [*found, *(_permit_verdicts(token, typed_data) if token else ())]


def _value_verdicts(rules: Rules, payload: Payload) -> Iterator[Verdict]:
    if (maximum := rules.get("max_value")) is not None:
        text = f"Value {payload.value} wei; the maximum of a transaction is {maximum} wei."
        yield Verdict("max_value", payload.value <= int(maximum), text)


def _own_account_verdicts(rules: Rules, payload: Payload) -> Iterator[Verdict]:
    """Refuse data to the own account: one that delegates to a contract (EIP-7702) would run any call it encodes."""
    if not rules or not payload.data or payload.to is None or payload.sender is None:
        return
    to = checksummed(payload.to)
    if to == checksummed(payload.sender) and _entry(rules, "receivers", to) is None:
        yield Verdict("own_account", False, f"{_call(payload.data)} to the own account; allowed: no data.")


def _receiver_verdicts(rules: Rules, payload: Payload) -> Iterator[Verdict]:
    receivers = rules.get("receivers")
    if receivers is None:
        return
    listed = [entry["address"] for entry in receivers]
    listed += [entry["contract"] for entry in rules.get("tokens", ()) if entry["contract"] not in listed]
    if payload.to is None:
        yield Verdict("receivers", False, f"A new contract; allowed receivers: {_named(listed)}.")
        return
    to = checksummed(payload.to)
    yield Verdict("receivers", to in listed, f"Receiver {to}; allowed: {_named(listed)}.")
    entry = _entry(rules, "receivers", to) or {}
    if (selectors := entry.get("selectors")) is not None:
        text = f"{_call(payload.data)} to {to}; allowed: {_named(map(_selector_name, selectors))}."
        yield Verdict("receivers.selectors", _selector(payload.data) in selectors, text)


def _token_verdicts(rules: Rules, payload: Payload) -> Iterator[Verdict]:
    if payload.to is None:
        if "tokens" in rules:
            # Its constructor runs code that no rule reads.
            yield Verdict("tokens", False, "A new contract; not allowed with rules for tokens.")
        return
    to = checksummed(payload.to)
    token = _entry(rules, "tokens", to)
    if token is None:
        return
    call = erc20.decode(payload.data)
    asked = f"Call of {call.function}" if call else _call(payload.data)
    text = f"{asked} to the token {to}; allowed: {', '.join(erc20.NAMES)}, in the canonical ABI encoding."
    yield Verdict("tokens.calls", call is not None, text)
    text = f"Value {payload.value} wei to the token {to}; allowed: 0 wei."
    yield Verdict("tokens.value", payload.value == 0, text)
    if call:
        yield from _amount_verdicts(token, call.recipient, call.amount)


def _amount_verdicts(token: Mapping[str, Any], recipient: str, amount: int) -> Iterator[Verdict]:
    contract = token["contract"]
    if (recipients := token.get("recipients")) is not None:
        text = f"Recipient or spender {recipient} of the token {contract}; allowed: {_named(recipients)}."
        yield Verdict("tokens.recipients", recipient in recipients, text)
    if (maximum := token.get("max_amount")) is not None:
        text = f"Amount {amount} of the token {contract}; the maximum of a transaction is {maximum}."
        yield Verdict("tokens.max_amount", amount <= int(maximum), text)


def _permit_verdicts(token: Mapping[str, Any], typed_data: Mapping[str, Any]) -> Iterator[Verdict]:
    permit, contract = read_permit(typed_data), token["contract"]
    text = f"Typed data for the token {contract}; allowed: an ERC-2612 permit."
    yield Verdict("tokens.calls", permit is not None, text)
    if permit is None:
        return
    yield from _amount_verdicts(token, permit.spender, permit.value)
    if "max_amount_per_day" in token:
        # A signature has no receipt that would end what it reserves.
        text = f"A permit for the token {contract}; not allowed with a maximum per day: send approve instead."
        yield Verdict("tokens.max_amount_per_day", False, text)


def _entry(rules: Rules, name: str, address: str) -> Mapping[str, Any] | None:
    """Return the entry of an address with its checksum, in `receivers` or in `tokens`."""
    key = "address" if name == "receivers" else "contract"
    return next((entry for entry in rules.get(name, ()) if entry[key] == address), None)


def _selector(data: bytes) -> str | None:
    """Return the selector as rules name it; None for one to three bytes, which contracts read in different ways."""
    if not data:
        return NO_DATA
    return f"0x{data[: erc20.SELECTOR_LENGTH].hex()}" if len(data) >= erc20.SELECTOR_LENGTH else None


def _selector_name(selector: str) -> str:
    return "no data" if selector == NO_DATA else selector


def _call(data: bytes) -> str:
    if not data:
        return "A transfer without data"
    selector = _selector(data)
    return f"Call of {selector} with {len(data)} bytes" if selector else f"Data of {len(data)} bytes"


def _named(entries: Iterable[str]) -> str:
    """Return the first entries, and how many more there are."""
    listed = list(entries)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return (", ".join(listed[:MAX_NAMED]) or "none") + more
