"""The network of a relayer."""

from chain.networks import networks
from relayers.models import Relayer
from transactions.records.networks import network_of


def test_an_unknown_network_is_final_late_and_refuses_nothing_itself() -> None:
    assert network_of(Relayer(network="sepolia")) is networks()["sepolia"]
    network = network_of(Relayer(network="my-chain", chain_id=4242))
    depths = (network.confirmations, network.finality_depth)
    assert (network.name, network.chain_id, depths) == ("my-chain", 4242, (12, 64))
    assert (network.tx_gas_cap, network.max_initcode, network.max_tx_bytes) == (None, None, None)
    assert not network.has_data_floor
