"""What staff see of a dry run: each rule with its verdict, and what the transaction would cost."""

from collections.abc import Iterator
from typing import Any

from chain.networks import Network
from chain.units import coin, coins, gwei
from relayer_service.amounts import Currency
from relayer_service.background.shares import Busy
from relayer_service.console.overview.dashboard import label
from relayer_service.evm import checksummed
from relayers.models import Relayer
from spending.console.currencies import Currencies, find_currencies, shown_amount
from transactions.console.formatting import readable
from transactions.limits.holders import GAS
from transactions.requests.dry_run import DryRun, Estimate, LimitCheck, check

# Of the name of a limit, before the contract.
TOKEN = "token:"  # noqa: S105  # not a password
BUSY = "Too many requests wait for nodes now. Try again."
CHECK_HEADERS = ["Rule", "Source", "Verdict", "Why"]
LIMIT_HEADERS = ["Limit", "Source", "Verdict", "Amount", "Used in 24 hours", "Left", "Maximum"]
SOURCES = {"state": "relayer", "policies": "relayer and network", "queue": "relayer", "token": "token"}


def outcome(relayer: Relayer, values: dict[str, Any], network: Network | None) -> dict[str, Any]:
    try:
        found: DryRun = check(relayer, values)
    except Busy:
        return {"fault": BUSY}
    contracts = [each.name.removeprefix(TOKEN) for each in found.limits if each.name.startswith(TOKEN)]
    contracts += [checksummed(values["to"])] if values.get("to") else []
    symbols = find_currencies({(relayer.network, contract) for contract in contracts})
    checks = [
        [rule, SOURCES.get(source, source), verdict(allowed), readable(text, network, symbols)]
        for source, rule, allowed, text in found.checks
    ]
    return {
        "verdict": verdict(found.allowed),
        "checks": {"headers": CHECK_HEADERS, "rows": checks},
        "limits": {"headers": LIMIT_HEADERS, "rows": [limit_row(each, network, symbols) for each in found.limits]},
        "facts": facts(found.estimate, network),
        "reason": found.estimate.reason,
        "refusals": [readable(text, network, symbols) for text in refusals(found)],
    }


def refusals(found: DryRun) -> Iterator[str]:
    """Yield why a transaction would be refused now."""
    yield from (each.text for each in found.checks if not each.allowed)
    exceeded = (each for each in found.limits if not each.allowed and each.name != GAS)
    yield from (f"The limit {each.rule} of the {each.source} is reached." for each in exceeded)


def verdict(allowed: bool) -> str:
    return label("allowed", "success") if allowed else label("refused", "danger")


def limit_row(each: LimitCheck, network: Network | None, symbols: Currencies) -> list[str]:
    contract = each.name.removeprefix(TOKEN) if each.name.startswith(TOKEN) else ""
    currency = symbols.get((network.name if network else "", contract), Currency()) if contract else coin(network)

    def shown(number: int | None) -> str:
        return "unknown" if number is None else shown_amount(number, currency)

    waits = each.name == GAS and not each.allowed
    judged = label("would wait", "warning") if waits else verdict(each.allowed)
    rule = f"{each.rule} {contract}".rstrip()
    return [rule, each.source, judged, *map(shown, (each.amount, each.used, each.left, each.maximum))]


def facts(estimate: Estimate, network: Network | None) -> dict[str, str]:
    if estimate.gas_limit is None:
        return {}
    price = estimate.gas_price if estimate.gas_price is not None else estimate.max_fee
    return {
        "Gas limit": f"{estimate.gas_limit:,}",
        "Maximum gas price": gwei(price or 0),
        "Maximum gas cost": coins(estimate.max_gas_cost or 0, network),
    }
