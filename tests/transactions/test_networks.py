"""The network of a relayer."""

from chain.networks import networks
from relayers.models import Relayer
from transactions.records.networks import network_of


def test_a_known_network_is_that_of_the_service() -> None:
    assert network_of(Relayer(network="sepolia")) is networks()["sepolia"]


def test_an_unknown_network_is_final_late_and_refuses_nothing_itself() -> None:
    network = network_of(Relayer(network="my-chain", chain_id=4242))
    assert (network.name, network.chain_id, network.confirmations, network.finality_depth) == (
        "my-chain",
        4242,
        12,
        64,
    )
    assert (network.tx_gas_cap, network.max_initcode, network.max_tx_bytes) == (None, None, None)
    assert not network.has_data_floor
