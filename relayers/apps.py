from typing import Any

from django.apps import AppConfig
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from chain.networks import networks
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
        from relayers.nodes import call_statistics

        observers.listeners.append(call_statistics.note)


@register(CONFIGURATION)
def check_networks(**kwargs: Any) -> list[CheckMessage]:
    """Report a mistake in NETWORKS_FILE at startup and before every command."""
    try:
        networks()
    except ImproperlyConfigured as error:
        return [Error(f"NETWORKS_FILE: {error}", hint="See docs/networks.md for the fields.", id="relayers.E001")]
    return []
