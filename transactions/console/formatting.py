"""Statuses, amounts, hashes and the state of lanes, as the admin shows them."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join, strip_tags
from django.utils.safestring import SafeString, mark_safe

from chain.errors import NodesUnreachable
from chain.networks import Network
from chain.nodes.plausibility import BEHIND
from chain.units import coins, rounded_coins
from relayer_service.amounts import Currency
from relayer_service.console.dates import to_the_minute
from relayer_service.console.overview.dashboard import label
from relayer_service.console.references import link
from relayers.console.formatting import amount, missing_text, waiting_for_funds
from spending import erc20
from spending.console.currencies import Currencies, find_currencies, shown_amount
from spending.erc20 import TokenCall
from transactions.models import Hold, Lane, Status, Transaction, Waiting
from transactions.records.networks import known_network
from transactions.records.reasons import halt_reason

# In wei: smaller values are shown in wei.
SMALL_VALUE = 10**9
# Characters of data that are shown; the rest can be expanded.
DATA_SHOWN = 74
LONG_DATA = """
    <details class="long-data">
        <summary><code>{}…</code> ({} bytes)</summary>
        <pre class="plain-text">{}</pre>
    </details>
"""
COPIED = """
    <span class="copied-address">{}
        <button type="button" data-copy="#{}" aria-label="Copy the {}">
            <span data-copy-label aria-live="polite">Copy</span>
        </button>
    </span>
"""
# A time in a `status_reason`, as programs read it.
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z", re.ASCII)
# An amount in a reason, as programs read it; what is left of another one has no unit.
WEI = re.compile(r"\b(\d{1,78})(?: wei\b|(?= of \d{1,78} wei\b))", re.ASCII)
# What a spending rule says of amounts of a token, in its smallest unit.
TOKEN_AMOUNTS = re.compile(r"\bAmount (?:\d{1,78} )?of the token (0x[0-9a-fA-F]{40})[;:] [^.]*", re.ASCII)
NUMBER = re.compile(r"\b\d{1,78}\b(?! hours)", re.ASCII)
# Characters of each end of a shortened address.
ENDS = 6
VARIANTS: dict[str, str] = {
    Status.PENDING: "info",
    Status.SENT: "info",
    Status.SUBMITTED: "info",
    Status.MINED: "primary",
    Status.CONFIRMED: "success",
    Status.FAILED: "danger",
    Status.CANCELED: "default",
    Status.EXPIRED: "warning",
}
HELD_TEXTS: dict[str, str] = {
    Hold.OPERATOR: "held by staff",
    Hold.LOST_COMMITS: "held: lost commits",
    Hold.EXTERNAL: "held: used elsewhere",
    Hold.CHAIN: "held: chain replaced",
}
WAITING_TEXTS: dict[str, str] = {Waiting.SIGNER: "signer fails", Waiting.NODES: "nodes fail"}
# What a lane waits for if all nodes have answered, with an old block.
BEHIND_START, BEHIND_END = str(NodesUnreachable(BEHIND)).split("{}")
# What details of nodes repeat of the label before them.
NO_ANSWER = str(NodesUnreachable("")).removesuffix(".")


class HoldEntry(NamedTuple):
    reason: str
    since: datetime | None
    details: str

    @property
    def label(self) -> str:
        return Hold(self.reason).label if self.reason in Hold else self.reason


def readable(
    reason: str, network: Network | None = None, symbols: Currencies | None = None, *, rounded: bool = False
) -> str:
    """Return a reason with its times and amounts as pages show them. Symbols that are not given are read."""
    shown = partial(rounded_coins, up=True) if rounded else coins
    reason = WEI.sub(lambda found: shown(int(found[1]), network), reason)
    if network and (contracts := TOKEN_AMOUNTS.findall(reason)):
        keys = {(network.name, contract) for contract in contracts}
        known = find_currencies(keys) if symbols is None else symbols
        reason = TOKEN_AMOUNTS.sub(lambda found: with_symbol(found, known.get((network.name, found[1]))), reason)
    return TIME.sub(lambda found: to_the_minute(datetime.fromisoformat(found[0])), reason)


def listed_reason(reason: str, network: Network | None, symbols: Currencies | None = None) -> str:
    """Return a reason with rounded amounts (up, as funds may be missing), and the exact ones as tooltip."""
    exact, short = (readable(reason, network, symbols, rounded=rounded) for rounded in (False, True))
    return short if short == exact else format_html('<span title="{}">{}</span>', exact, short)


def with_symbol(sentence: re.Match[str], currency: Currency | None) -> str:
    return NUMBER.sub(lambda found: shown_amount(int(found[0]), currency), sentence[0]) if currency else sentence[0]


def badge(status: str) -> str:
    return label(status, VARIANTS[status])


def sender(row: Transaction) -> str:
    return link(row.relayer) if row.relayer else row.lane.address


def network_name(row: Lane | Transaction) -> str:
    network, lane = known_network(row), row.lane if isinstance(row, Transaction) else row
    return network.name if network else row.relayer.network if row.relayer else f"chain {lane.chain_id}"


def value(row: Transaction) -> str:
    # A list cuts off the digits of a small part of a coin.
    network = known_network(row) if row.value >= SMALL_VALUE or not row.value else None
    return coins(row.value, network)


def listed_value(row: Transaction) -> str:
    return amount(row.value, known_network(row))


def explorer_link(row: Lane | Transaction, kind: str, value: str, copied: str = "") -> str | SafeString:
    """Return a value, linked to its page in the explorer of a row's network; `kind` is `tx`, `address` or `block`.

    With a name in `copied`, such as "hash", a button copies it.
    """
    network, identifier = known_network(row), f"copied-{copied.replace(' ', '-')}"
    code = format_html('<code id="{}">{}</code>' if copied else "<code>{1}</code>", identifier, value)
    if network and network.explorer:
        url = f"{network.explorer.rstrip('/')}/{kind}/{value}"
        code = format_html('<a class="underline" href="{}" rel="noreferrer">{}</a>', url, code)
    return format_html(COPIED, code, identifier, copied) if copied else code


def copied(name: str, value: str) -> SafeString:
    """Return a text with a button that copies it."""
    identifier = f"copied-{name.replace(' ', '-')}"
    return format_html(COPIED, format_html('<code id="{}">{}</code>', identifier, value), identifier, name)


def token_call(row: Transaction, call: TokenCall, words: str, *, is_short: bool = False) -> SafeString:
    """Return a call of a token in words, with the accounts that it concerns, which are shortened in tables."""

    def account(address: str, role: str) -> str:
        return shortened(address) if is_short else explorer_link(row, "address", address, role)

    owner = erc20.owner(bytes(row.data)) if call.function == "transferFrom" else ""
    source = format_html(" from {}", account(owner, "owner")) if owner else ""
    preposition, role = ("by", "spender") if call.function == "approve" else ("to", "recipient")
    return format_html("{}{} {} {}", words, source, preposition, account(call.recipient, role))


def receiver(row: Transaction) -> str | SafeString:
    return explorer_link(row, "address", row.to, "receiver") if row.to else "creates a contract"


def listed_receiver(row: Transaction) -> str | SafeString:
    """Return the receiver for a list, and what a call of a token does."""
    receiver, words = shortened(row.to) if row.to else "new contract", getattr(row, "token_call", "")
    return format_html('{}<span class="token-call">{}</span>', receiver, words) if words else receiver


def hexadecimal(data: bytes | memoryview) -> str | SafeString:
    """Return bytes in hexadecimal; if they are long, their start, which opens to all of them."""
    text = f"0x{bytes(data).hex()}"
    if len(text) <= DATA_SHOWN:
        return format_html("<code>{}</code>", text) if data else "-"
    return format_html(LONG_DATA, text[:DATA_SHOWN], f"{len(data):,}", text)


def metadata(row: Transaction) -> str:
    return format_html_join(mark_safe("<br>"), "{}: {}", sorted((row.metadata or {}).items())) or "-"


def shortened(address: str) -> SafeString:
    """Return both ends of an address, with all of it as the tooltip."""
    return format_html('<code title="{}">{}…{}</code>', address, address[:ENDS], address[-ENDS:])


def hold_entries(lane: Lane) -> Iterator[HoldEntry]:
    """Yield the holds of a lane, the oldest first."""
    for reason, entry in sorted(lane.holds.items(), key=lambda item: (item[1].get("since", ""), item[0])):
        yield HoldEntry(reason, parse_datetime(str(entry.get("since", ""))), entry.get("details", ""))


def lane_badges(lane: Lane) -> str:
    shown = [label(HELD_TEXTS.get(entry.reason, entry.reason), "danger") for entry in hold_entries(lane)]
    if lane.needs_funds:
        shown.append(waiting_for_funds(lane.missing, known_network(lane)))
    if lane.waiting not in {"", Waiting.FUNDS} and not is_behind(lane):
        shown.append(label(WAITING_TEXTS.get(lane.waiting, lane.waiting), "warning"))
    if halt_reason(lane) or is_behind(lane):
        shown.append(label("no new block", "danger"))
    return format_html_join(" ", "{}", ([each] for each in shown or [label("running", "success")]))


def lane_reason(lane: Lane) -> str:
    """Return why a lane assigns no nonces to requests; "" if it does."""
    parts = [sentence(entry.label, entry.details) for entry in hold_entries(lane)]
    is_known = lane.missing.amount is not None and not parts
    if is_known:
        missing = strip_tags(missing_text(lane.missing, known_network(lane)))
        parts.append(f"{Waiting.FUNDS.label}: {missing}.")
    if is_behind(lane):
        parts.append(readable(halt_reason(lane)) or "The nodes answer, with an old block.")
    elif lane.waiting and not (is_known and lane.waiting == Waiting.FUNDS):
        parts.append(sentence(Waiting(lane.waiting).label, lane.waiting_details.removeprefix(NO_ANSWER)))
    return " ".join(parts)


def is_behind(lane: Lane) -> bool:
    """Return whether a lane waits for nodes that have answered, with an old block."""
    return lane.waiting_details.startswith(BEHIND_START) and lane.waiting_details.endswith(BEHIND_END)


def sentence(text: str, details: str) -> str:
    return f"{text}: {details.rstrip('.')}." if details else f"{text}."
