"""Finding the relayer of a JSON-RPC call, which only reads: code that decides about money uses `find_relayer`."""

from relayer_service.database.ttl_cache import TTLCache
from relayers.models import Relayer, find_relayer

# A burst of calls shares one read of a relayer and of fee tokens.
CACHE_SECONDS = 1
COLUMNS = ["sequence", "identifier", "network", "network_type", "address", "policies", "custom_rpc_urls"]

# By ID. Threads share the rows and only read them.
_relayers: TTLCache[str, Relayer] = TTLCache()


def find_cached_relayer(identifier: str) -> Relayer:
    """Return the COLUMNS of a relayer as they were at most CACHE_SECONDS ago; raise `NotFound` if there is none."""
    rows = Relayer.objects.only(*COLUMNS)
    return _relayers.get_or_read(identifier, lambda: find_relayer(identifier, rows), CACHE_SECONDS)
