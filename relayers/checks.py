"""System checks of relayers: a mistake in NETWORKS_FILE is found at the start."""

from typing import Any

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from chain.networks import networks


@register()
def check_networks(**kwargs: Any) -> list[CheckMessage]:
    """Find a mistake in the file of networks, an error for every command."""
    try:
        networks()
    except ImproperlyConfigured as error:
        return [Error(f"NETWORKS_FILE: {error}", hint="docs/networks.md has the fields.", id="relayers.E001")]
    return []
