"""Finding the relayer of a JSON-RPC call."""

from __future__ import annotations

from django.conf import settings

from relayer_service.api.exceptions import NotFound
from relayer_service.storage.ttl_cache import TTLCache
from relayers.models import Relayer

NOT_FOUND = "Relayer with ID {} not found"
# What methods need of a relayer.
COLUMNS = ["sequence", "identifier", "network", "network_type", "address", "policies", "custom_rpc_urls"]

# Threads share the rows and only read them.
_relayers: TTLCache[str, Relayer] = TTLCache()


def find_relayer(identifier: str) -> Relayer:
    """Return a relayer as it was at most RPC_CACHE_SECONDS ago; raise `NotFound` if there is none."""
    return _relayers.get_or_read(identifier, lambda: _read(identifier), settings.RPC_CACHE_SECONDS)


def _read(identifier: str) -> Relayer:
    # PostgreSQL refuses to look for a NUL, which no id has.
    row = None if "\0" in identifier else Relayer.objects.only(*COLUMNS).filter(identifier=identifier).first()
    if row is None:
        raise NotFound(NOT_FOUND.format(identifier))
    found: Relayer = row
    return found
