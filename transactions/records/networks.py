"""The network of a relayer, also of one that the service does not define."""

from functools import lru_cache

from chain.networks import Network, NetworkKind, networks
from relayers.models import Relayer

# Little is known of such a network, so its blocks become final late, and it refuses nothing before a node does.
UNKNOWN_CONFIRMATIONS = 12
UNKNOWN_FINALITY_DEPTH = 64
UNKNOWN_BLOCK_SECONDS = 12


def network_of(relayer: Relayer) -> Network:
    """Return the network of a relayer; a cautious one if only its chain ID and nodes are known."""
    known = networks().get(relayer.network)
    return known or _unknown_network(relayer.network, relayer.chain_id or 0)


@lru_cache(maxsize=1_000)
def _unknown_network(name: str, chain_id: int) -> Network:
    return Network(
        name=name,
        chain_id=chain_id,
        symbol="ETH",
        decimals=18,
        block_seconds=UNKNOWN_BLOCK_SECONDS,
        kind=NetworkKind.NONE,
        rpc_urls=(),
        max_initcode=None,
        max_tx_bytes=None,
        has_data_floor=False,
        confirmations=UNKNOWN_CONFIRMATIONS,
        finality_depth=UNKNOWN_FINALITY_DEPTH,
    )
