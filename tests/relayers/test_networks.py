"""The networks that the service knows, and what NETWORKS_FILE adds to them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from relayer_service.net.addresses import validate_http_url
from relayers.chain import networks
from relayers.chain.networks import L1Fee, Network
from relayers.models import Relayer

ENTRY: dict[str, Any] = {
    "chain_id": 1337,
    "symbol": "TEST",
    "decimals": 18,
    "block_seconds": 0.5,
    "l1_fee": "op-stack",
    "rpc_urls": ["http://127.0.0.1:8545"],
    "testnet": True,
}

Write = Callable[[Any], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: Any) -> Path:
        """Write a file of networks; text is written as it is."""
        path = tmp_path / "networks.json"
        path.write_text(content if isinstance(content, str) else json.dumps({"networks": content}))
        return path

    return write


@pytest.fixture
def use(write: Write, settings: Settings) -> Iterator[Callable[[Any], None]]:
    def use(content: Any) -> None:
        """Have a file of networks as NETWORKS_FILE."""
        settings.NETWORKS_FILE = str(write(content))
        networks.networks.cache_clear()

    yield use
    networks.networks.cache_clear()


def fault(path: Path) -> str:
    with pytest.raises(ImproperlyConfigured) as raised:
        networks.read(path)
    return str(raised.value)


def test_the_well_known_networks_are_there() -> None:
    chain_ids = {name: network.chain_id for name, network in networks.read(networks.SHIPPED).items()}
    well_known = {
        "mainnet": 1,
        "sepolia": 11155111,
        "optimism": 10,
        "base": 8453,
        "arbitrum-one": 42161,
        "polygon": 137,
        "bsc": 56,
        "hardhat": 31337,
    }
    assert {name: chain_ids[name] for name in well_known} == well_known


def test_each_chain_id_stands_once() -> None:
    counted = Counter(network.chain_id for network in networks.read(networks.SHIPPED).values())
    assert [chain_id for chain_id, times in counted.items() if times > 1] == []


def test_each_has_urls_that_can_be_called() -> None:
    for network in networks.read(networks.SHIPPED).values():
        assert network.rpc_urls, network.name
        for url in network.rpc_urls:
            validate_http_url(url)
            # A public endpoint over plain HTTP could be answered by anybody on the way.
            assert url.startswith(("https://", "http://127.0.0.1:")), url


def test_each_is_within_what_the_columns_and_sums_take() -> None:
    for network in networks.read(networks.SHIPPED).values():
        assert len(network.name) <= (Relayer._meta.get_field("network").max_length or 0)
        assert (0 < network.chain_id < 2**63, network.decimals, network.block_seconds > 0) == (True, 18, True)


def test_the_source_of_the_facts_is_named() -> None:
    assert json.loads(networks.SHIPPED.read_text())["source"]


def test_a_file_adds_networks(use: Callable[[Any], None]) -> None:
    shipped = networks.read(networks.SHIPPED)
    use({"ours": ENTRY})
    ours = Network(
        name="ours",
        chain_id=1337,
        symbol="TEST",
        decimals=18,
        block_seconds=0.5,
        l1_fee=L1Fee.OP_STACK,
        rpc_urls=("http://127.0.0.1:8545",),
        testnet=True,
    )
    assert networks.networks() == shipped | {"ours": ours}


def test_a_file_replaces_a_network_by_its_name(use: Callable[[Any], None]) -> None:
    shipped = networks.read(networks.SHIPPED)
    use({"sepolia": ENTRY | {"chain_id": 11155111, "rpc_urls": ["https://rpc.example.com/KEY"]}})
    found = networks.networks()
    assert list(found) == list(shipped)
    assert found["sepolia"].rpc_urls == ("https://rpc.example.com/KEY",)
    assert found["mainnet"] == shipped["mainnet"]


def test_what_may_be_left_out_has_a_default(write: Write) -> None:
    entry = {name: ENTRY[name] for name in ("chain_id", "symbol", "decimals", "block_seconds")}
    network = networks.read(write({"ours": entry}))["ours"]
    assert (network.l1_fee, network.rpc_urls, network.testnet, network.network_type) == (L1Fee.NONE, (), False, "evm")


@pytest.mark.parametrize("name", ["chain_id", "symbol", "decimals", "block_seconds"])
def test_what_is_missing_is_named(write: Write, name: str) -> None:
    entry = {key: value for key, value in ENTRY.items() if key != name}
    said = fault(write({"ours": entry}))
    assert said.startswith("networks.json: ours: ")
    assert f"'{name}'" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"chain_id": "1337"}, "'1337' is of the wrong type"),
        ({"chain_id": None}, "None is of the wrong type"),
        ({"symbol": 1}, "1 is of the wrong type"),
        ({"decimals": 1.5}, "1.5 is of the wrong type"),
        ({"block_seconds": "2"}, "'2' is of the wrong type"),
        ({"testnet": "yes"}, "'yes' is of the wrong type"),
        ({"l1_fee": "optimism"}, "'optimism' is not a valid L1Fee"),
        ({"tip_floor": "1"}, "'1' is of the wrong type"),
        ({"gas_buffer_bps": True}, "True is of the wrong type"),
        ({"tip_floor": -1}, "tip_floor, base_fee_margin_bps or gas_buffer_bps is out of range"),
        ({"sequencer_feed": 1}, "1 is of the wrong type"),
        ({"sequencer_feed": "0xfdb6"}, "sequencer_feed must be an address with its checksum"),
        ({"rpc_urls": ["rpc.example.com"]}, "rpc_urls: an absolute http or https URL is required"),
    ],
)
def test_a_wrong_value_is_named(write: Write, change: dict[str, Any], words: str) -> None:
    assert fault(write({"ours": ENTRY | change})) == f"networks.json: ours: {words}"


def test_a_wrong_url_is_not_told_back(write: Write) -> None:
    assert "KEY" not in fault(write({"ours": ENTRY | {"rpc_urls": ["rpc.example.com/KEY"]}}))


@pytest.mark.parametrize("entry", [None, [], "x", ENTRY | {"name": "other"}, ENTRY | {"chainId": 1}])
def test_an_entry_of_another_shape_is_refused(write: Write, entry: Any) -> None:
    known = (
        "base_fee_margin_bps, block_seconds, chain_id, decimals, gas_buffer_bps, l1_fee, rpc_urls, sequencer_feed, "
        "symbol, testnet, tip_floor"
    )
    assert fault(write({"ours": entry})) == f"networks.json: ours must be an object with some of {known}"


@pytest.mark.parametrize("content", ["[]", "{}", "null", '{"networks": []}'])
def test_a_file_of_another_shape_is_refused(write: Write, content: str) -> None:
    assert fault(write(content)) == "networks.json must be an object with `networks`, an object by name"


def test_a_file_that_is_no_json_is_refused(write: Write) -> None:
    assert fault(write("{")).startswith("networks.json cannot be read as JSON: ")


def test_a_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    assert fault(tmp_path / "none.json").startswith("none.json cannot be read as JSON: ")
