"""Finding the relayer of a JSON-RPC call, which only reads: code that decides about money uses `find_relayer`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from chain.nodes.failover import Node
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer, find_relayer

# A burst of calls shares one read of a relayer and of fee tokens.
CACHE_SECONDS = 1
COLUMNS = ["sequence", "identifier", "network", "network_type", "address", "policies", "custom_rpc_urls"]


@dataclass(frozen=True)
class RpcRelayer:
    """A snapshot of a relayer that threads can share."""

    pk: int
    identifier: str
    network: str
    network_type: str
    address: str
    policies: Mapping[str, Any]
    nodes: tuple[Node, ...] = field(repr=False)
    # Why the URLs cannot be decrypted: only methods that query a node fail.
    fault: str = ""

    @classmethod
    def from_row(cls, row: Relayer) -> Self:
        nodes, fault = [], ""
        try:
            nodes = row.node_urls()
        except DecryptionError as error:
            fault = str(error)
        policies = MappingProxyType(row.policies)
        return cls(row.pk, row.identifier, row.network, row.network_type, row.address, policies, tuple(nodes), fault)

    def node_urls(self) -> tuple[Node, ...]:
        if self.fault:
            raise DecryptionError(self.fault)
        return self.nodes


_relayers: TTLCache[str, RpcRelayer] = TTLCache()


def find_cached_relayer(identifier: str) -> RpcRelayer:
    """Return a relayer as it was at most CACHE_SECONDS ago; raise `NotFound` if there is none."""

    def read() -> RpcRelayer:
        return RpcRelayer.from_row(find_relayer(identifier, Relayer.objects.only(*COLUMNS)))

    return _relayers.get_or_read(identifier, read, CACHE_SECONDS)
