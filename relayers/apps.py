from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from chain.networks import Network, networks
from chain.nodes import observers
from relayer_service.configuration.checks import CONFIGURATION


class RelayersConfig(AppConfig):
    name = "relayers"
    admin_panels = {
        "relayers.Relayer": [
            "relayers.console.panels.Status",
            "relayers.console.balance.Balance",
            "relayers.console.panels.TimeLine",
        ],
        "relayer_service.Job": ["relayers.console.bulk_edit.Undo"],
        "relayer_service.AuditEntry": ["relayers.console.bulk_edit.Undo"],
    }
    audit_units = "relayers.console.audit.show_units"
    attention_subjects = {20: "relayers.console.overview.attention"}
    dashboard_cards = {10: "relayers.console.overview.card"}
    getting_started_steps = {20: "relayers.console.overview.step"}

    def ready(self) -> None:
        from relayers import nodes

        observers.listeners.append(nodes.note)


@register(CONFIGURATION)
def check_networks(**kwargs: Any) -> list[CheckMessage]:
    """Report a mistake in NETWORKS_FILE at startup and before every command."""
    try:
        found = networks().values()
    except ImproperlyConfigured as error:
        return [Error(f"NETWORKS_FILE: {error}", hint="See docs/networks.md for the fields.", id="relayers.E001")]
    by_chain: dict[int, list[Network]] = {}
    for network in found:
        by_chain.setdefault(network.chain_id, []).append(network)
    return [
        Warning(
            f"NETWORKS_FILE: {' and '.join(each.name for each in same)} have the chain ID {number}, but other coins.",
            hint="If they are the same chain, give them the same symbol and decimals.",
            id="relayers.W001",
        )
        for number, same in by_chain.items()
        if len({(each.symbol, each.decimals) for each in same}) > 1
    ]
