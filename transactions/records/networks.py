"""The network of a relayer, lane or transaction, also if the service does not define it."""

from functools import lru_cache

from chain.networks import Network, NetworkKind, network_by_chain_id, networks
from relayers.models import Relayer
from transactions.models import Lane, Transaction


def network_of(relayer: Relayer) -> Network:
    """Return the network of a relayer; a cautious one if only its chain ID and nodes are known."""
    known = networks().get(relayer.network)
    return known or _unknown_network(relayer.network, relayer.chain_id or 0)


def known_network(row: Lane | Transaction) -> Network | None:
    """Return the network of the relayer of a lane or transaction, or else the one with its chain ID."""
    lane = row.lane if isinstance(row, Transaction) else row
    return (networks().get(row.relayer.network) if row.relayer else None) or network_by_chain_id(lane.chain_id)


@lru_cache(maxsize=1_000)
def _unknown_network(name: str, chain_id: int) -> Network:
    # Little is known of it, so its blocks become final late, and it refuses nothing before a node does.
    return Network(
        name=name,
        chain_id=chain_id,
        symbol="ETH",
        decimals=18,
        block_seconds=12,
        kind=NetworkKind.NONE,
        rpc_urls=(),
        max_initcode=None,
        max_tx_bytes=None,
        has_data_floor=False,
        confirmations=12,
        finality_depth=64,
    )
