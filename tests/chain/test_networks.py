"""The networks that the service knows, and what NETWORKS_FILE adds to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from chain import networks
from chain.networks import BaseFeeRule, Mempool, Network, NetworkKind
from relayer_service.net.addresses import validate_http_url
from relayers.apps import check_networks
from relayers.models import Relayer
from tests.servers import PROJECT

ENTRY: dict[str, Any] = {
    "chain_id": 1337,
    "symbol": "TEST",
    "decimals": 18,
    "block_seconds": 0.5,
    "kind": "op-stack",
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


def shipped() -> dict[str, Network]:
    return networks.read(networks.SHIPPED)


def test_the_networks_are_many_and_of_every_kind_each_once() -> None:
    found = shipped()
    some = {"mainnet": 1, "optimism": 10, "arbitrum-one": 42161, "polygon": 137, "bsc": 56, "zksync-era": 324}
    assert {name: found[name].chain_id for name in some} == some
    assert len({network.chain_id for network in found.values()}) == len(found) >= 40
    assert {network.kind for network in found.values()} == {*NetworkKind}


def test_what_makes_networks_different_is_data() -> None:
    found = shipped()
    assert (found["bsc"].block_seconds, found["bsc"].tip_floor) == (0.45, 50_000_000)
    assert (found["polygon"].tip_floor, found["polygon"].confirmations) == (25 * 10**9, 64)
    assert {
        name: network.unused_gas_charge_bps for name, network in found.items() if network.unused_gas_charge_bps
    } == {
        "monad": 10_000,
        "monad-testnet": 10_000,
        "sonic": 1_000,
    }
    assert {name: network.base_fee_rule for name, network in found.items() if network.base_fee_rule != "eip-1559"} == {
        "avalanche": BaseFeeRule.ETH_BASE_FEE,
        "avalanche-fuji": BaseFeeRule.ETH_BASE_FEE,
        "sonic": BaseFeeRule.LAST_BLOCK,
        "metis": BaseFeeRule.NONE,
        "metis-sepolia": BaseFeeRule.NONE,
    }
    assert {network.name for network in found.values() if not network.reports_fullness} == {
        *(network.name for network in found.values() if network.kind in {NetworkKind.ARBITRUM, NetworkKind.ZKSYNC}),
        "sonic",
    }
    # A transaction with a blob fits into a block of these alone.
    assert {name: network.blobs_per_tx for name, network in found.items() if network.blobs_per_tx} == {
        "mainnet": 6,
        "sepolia": 6,
        "hoodi": 6,
        "bsc": 6,
        "bsc-testnet": 6,
        "gnosis": 2,
        "gnosis-chiado": 2,
        "hardhat": 6,
    }


def test_nothing_is_final_before_it_is_confirmed() -> None:
    depths = {name: (each.finality_depth, each.confirmations) for name, each in shipped().items()}
    assert [name for name, (final, confirmed) in depths.items() if final is not None and final < confirmed] == []


def test_networks_without_the_tag_finalized_have_a_depth() -> None:
    assert {name: network.finality_depth for name, network in shipped().items() if network.finality_depth} == {
        "sonic": 10,
        "metis": 10,
        "metis-sepolia": 10,
        "hyperevm": 10,
        "hyperevm-testnet": 10,
        # It has the tag, but for the head block.
        "hardhat": 2,
    }


def test_mempools_and_windows_are_by_kind() -> None:
    found = {network.kind: (network.mempool, network.window) for network in shipped().values()}
    assert {kind: values for kind, values in found.items() if values != (Mempool.PUBLIC, 16)} == {
        NetworkKind.OP_STACK: (Mempool.PUBLIC, 32),
        NetworkKind.MANTLE: (Mempool.PUBLIC, 32),
        NetworkKind.ARBITRUM: (Mempool.NONE, 16),
    }


def test_no_transfer_costs_more_than_a_coin_at_the_maximum_price() -> None:
    # Coins of these are worth little, and their prices are high.
    cheap = {"polygon", "polygon-amoy", "moonbeam", "cronos", "cronos-testnet"}
    dear = {name for name, network in shipped().items() if network.max_gas_price * 21_000 >= 10**18}
    assert dear == cheap


def test_only_networks_that_are_no_more_are_closed() -> None:
    assert not networks.closed().keys() & shipped().keys()
    assert networks.closed()["holesky"] == "holesky was shut down in 2025: use hoodi, or sepolia"


def test_each_field_can_be_said_in_a_file() -> None:
    assert {*networks.CHECKS} == {field.name for field in fields(Network)} - {"name", "network_type"}


def test_each_has_urls_that_can_be_called() -> None:
    for network in shipped().values():
        assert network.rpc_urls, network.name
        for url in network.rpc_urls:
            validate_http_url(url)
            # A public endpoint over plain HTTP could be answered by anybody on the way.
            assert url.startswith(("https://", "http://127.0.0.1:")), url


def test_each_is_within_what_the_columns_and_sums_take() -> None:
    for network in shipped().values():
        assert len(network.name) <= (Relayer._meta.get_field("network").max_length or 0)
        assert (0 < network.chain_id < 2**63, network.decimals, network.block_seconds > 0) == (True, 18, True)


def test_a_file_adds_networks_and_replaces_one_by_its_name(use: Callable[[Any], None]) -> None:
    required = {name: ENTRY[name] for name in ("chain_id", "symbol", "decimals", "block_seconds")}
    use({"sepolia": ENTRY | {"chain_id": 11155111}, "ours": required})
    found = networks.networks()
    assert list(found) == [*shipped(), "ours"]
    assert found["sepolia"].rpc_urls == ("http://127.0.0.1:8545",)
    assert found["mainnet"] == shipped()["mainnet"]
    assert found["ours"] == Network(
        name="ours", chain_id=1337, symbol="TEST", decimals=18, block_seconds=0.5, kind=NetworkKind.NONE, rpc_urls=()
    )


def test_a_file_can_say_all_of_it(write: Write) -> None:
    entry = {
        "chain_id": 777,
        "symbol": "OUR",
        "decimals": 6,
        "block_seconds": 2,
        "kind": "scroll",
        "rpc_urls": ["https://rpc.example.com"],
        "testnet": True,
        "tip_floor": 1,
        "base_fee_margin_bps": 2,
        "gas_buffer_bps": 3,
        "l1_fee_margin_bps": 4,
        "base_fee_rule": "last-block",
        "reports_fullness": False,
        "unused_gas_charge_bps": 500,
        "tx_gas_cap": 30_000_000,
        "max_initcode": 262_144,
        "max_tx_bytes": 393_216,
        "blobs_per_tx": 2,
        "has_data_floor": False,
        "max_head_age_seconds": 60,
        "finality_depth": 64,
        "confirmations": 5,
        "window": 1,
        "mempool": "none",
        "max_gas_price": 10**12,
        "max_priority_fee": 10**11,
        "private_rpc_urls": ["https://private.example.com/key"],
        "explorer": "https://explorer.example.com",
        "sequencer_feed": "0xFdB631F5EE196F0ed6FAa767959853A9F217697D",
    }
    assert entry.keys() == networks.CHECKS.keys()
    typed = {
        "kind": NetworkKind.SCROLL,
        "base_fee_rule": BaseFeeRule.LAST_BLOCK,
        "mempool": Mempool.NONE,
        "rpc_urls": ("https://rpc.example.com",),
        "private_rpc_urls": ("https://private.example.com/key",),
    }
    assert networks.read(write({"ours": entry})) == {"ours": Network(name="ours", **entry | typed)}  # type: ignore[arg-type]


def test_null_is_not_set(write: Write) -> None:
    required = {name: ENTRY[name] for name in networks.REQUIRED}
    found = networks.read(write({"ours": dict.fromkeys(networks.CHECKS) | required, "same": required}))
    ours, same = found["ours"], found["same"]
    differing = {field.name for field in fields(Network) if getattr(ours, field.name) != getattr(same, field.name)}
    assert differing == {"name", "max_initcode", "max_tx_bytes"}
    # Without the limits that networks have unless they say so.
    assert (ours.max_initcode, same.max_initcode) == (None, 49_152)
    assert (ours.max_tx_bytes, same.max_tx_bytes) == (None, 131_072)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, [1_000_000, 2_000, 1_000, 1_000]), (0, [0, 0, 0, 0]), (7, [7, 7, 7, 7])]
)
def test_quotes_have_defaults_unless_a_file_has_a_value(write: Write, value: int | None, expected: list[int]) -> None:
    names = ["tip_floor", "base_fee_margin_bps", "gas_buffer_bps", "l1_fee_margin_bps"]
    entry = {name: ENTRY[name] for name in networks.REQUIRED} | dict.fromkeys(names, value)
    found = networks.read(write({"ours": entry}))["ours"]
    assert [getattr(found, name) for name in names] == expected


def test_a_file_may_call_the_kind_by_its_old_name(write: Write) -> None:
    entry = {name: value for name, value in ENTRY.items() if name != "kind"} | {"l1_fee": "arbitrum"}
    assert networks.read(write({"ours": entry}))["ours"].kind is NetworkKind.ARBITRUM


def test_what_is_missing_is_named(write: Write) -> None:
    for name in ("chain_id", "symbol", "decimals", "block_seconds"):
        entry = {key: value for key, value in ENTRY.items() if key != name}
        assert fault(write({"ours": entry})) == f"networks.json: ours: {name}: this field is required"


WHOLE = "must be a whole number of at least {}"
RANGE = "must be a whole number from {} to {}"
URL = "an absolute http or https URL is required"
KINDS = "must be one of: none, op-stack, mantle, arbitrum, linea, scroll, zksync"
WRONG: dict[str, list[tuple[str, Any]]] = {
    "this field is required": [("chain_id", None)],
    RANGE.format(1, 2**63 - 1): [("chain_id", "1337"), ("chain_id", 0)],
    RANGE.format(0, 255): [("decimals", 1.5)],
    RANGE.format(0, 10_000): [("unused_gas_charge_bps", 10_001)],
    RANGE.format(1, 1_000): [("window", 0)],
    RANGE.format(1, 2**128 - 1): [("max_gas_price", 0)],
    RANGE.format(0, 2**128 - 1): [("max_priority_fee", -1)],
    WHOLE.format(0): [
        *(("tip_floor", value) for value in ("1", -1)),
        *(("gas_buffer_bps", True), ("base_fee_margin_bps", 0.5), ("l1_fee_margin_bps", -1)),
        *((name, -1) for name in ("blobs_per_tx", "finality_depth")),
    ],
    WHOLE.format(1): [(name, 0) for name in ("max_initcode", "max_head_age_seconds", "confirmations")],
    WHOLE.format(1_000): [("max_tx_bytes", 999)],
    WHOLE.format(21_000): [("tx_gas_cap", 20_999)],
    "must be a number above 0": [("block_seconds", value) for value in ("2", 0, float("inf"))],
    "must be true or false": [("testnet", "yes"), ("reports_fullness", 1), ("has_data_floor", 0)],
    KINDS: [("kind", "optimism"), ("kind", [])],
    "must be one of: eip-1559, eth_baseFee, last-block, none": [("base_fee_rule", "eip1559")],
    "must be one of: public, none": [("mempool", "private")],
    "must be a string": [("symbol", 1), ("explorer", ""), ("rpc_urls", [1])],
    "must be a list": [("rpc_urls", "https://rpc.example.com")],
    URL: [("explorer", "explorer.example.com"), ("rpc_urls", ["rpc.example.com/KEY"]), ("private_rpc_urls", ["x"])],
    "a user name or a password is not allowed in this URL": [("explorer", "https://user:pass@example.com")],
    "must be a checksummed address": [("sequencer_feed", 1), ("sequencer_feed", "0xfdb6")],
}


def test_a_wrong_value_is_named_and_not_repeated(write: Write) -> None:
    assert {name for cases in WRONG.values() for name, _ in cases} == networks.CHECKS.keys()
    for words, cases in WRONG.items():
        for name, value in cases:
            assert fault(write({"ours": ENTRY | {name: value}})) == f"networks.json: ours: {name}: {words}"


def test_an_unknown_field_is_named(write: Write) -> None:
    assert fault(write({"ours": []})) == "networks.json: ours: must be an object"
    known = (
        "base_fee_margin_bps, base_fee_rule, blobs_per_tx, block_seconds, chain_id, confirmations, decimals, "
        "explorer, finality_depth, gas_buffer_bps, has_data_floor, kind, l1_fee_margin_bps, max_gas_price, "
        "max_head_age_seconds, max_initcode, max_priority_fee, max_tx_bytes, mempool, private_rpc_urls, "
        "reports_fullness, rpc_urls, sequencer_feed, symbol, testnet, tip_floor, tx_gas_cap, "
        "unused_gas_charge_bps, window"
    )
    assert fault(write({"ours": ENTRY | {"name": 1}})) == (
        f"networks.json: ours: name: unknown field; use one of: {known}"
    )


def test_a_field_by_both_its_names_is_refused(write: Write) -> None:
    assert fault(write({"ours": ENTRY | {"kind": "none", "l1_fee": "none"}})) == (
        "networks.json: ours: l1_fee: renamed to kind, which is also set"
    )


def test_a_mistake_in_the_file_is_found_at_the_start(write: Write, settings: Any) -> None:
    settings.NETWORKS_FILE = str(write({"ours": ENTRY | {"decimals": -1}}))
    networks.networks.cache_clear()
    try:
        assert [(message.id, message.msg) for message in check_networks()] == [
            (
                "relayers.E001",
                "NETWORKS_FILE: networks.json: ours: decimals: must be a whole number from 0 to 255",
            )
        ]
    finally:
        networks.networks.cache_clear()


def test_networks_of_one_chain_with_other_coins_are_reported(write: Write, settings: Any) -> None:
    same, other = ENTRY | {"symbol": "ONE"}, ENTRY | {"symbol": "TWO"}
    for entries, expected in (({"a": same, "b": same}, []), ({"a": same, "b": other}, ["relayers.W001"])):
        settings.NETWORKS_FILE = str(write(entries))
        networks.networks.cache_clear()
        try:
            found = check_networks()
        finally:
            networks.networks.cache_clear()
        assert [message.id for message in found] == expected
    assert found[0].msg == f"NETWORKS_FILE: a and b have the chain ID {ENTRY['chain_id']}, but other coins."


def test_a_file_that_is_missing_or_of_another_shape_is_refused(write: Write, tmp_path: Path) -> None:
    for content in ("[]", '{"networks": []}'):
        assert fault(write(content)) == "networks.json must be an object with the field `networks`, an object"
    assert fault(write("{")).startswith("networks.json cannot be read as JSON: ")
    assert fault(tmp_path / "none.json").startswith("none.json cannot be read as JSON: ")


def test_the_docs_list_the_networks_and_the_fields() -> None:
    text = (PROJECT / "docs/networks.md").read_text()
    names: dict[NetworkKind, list[str]] = {}
    for found in shipped().values():
        names.setdefault(found.kind, []).append(f"`{found.name}` {found.chain_id}")
    listed = [" ".join(item.split()) for item in text.split("## Supported networks")[1].split("\n- ")[1:]]
    assert listed == [f"**{kind}**: {', '.join(names[kind])}" for kind in names]
    said = [sentence.removeprefix(f"{name} was ") for name, sentence in networks.closed().items()]
    assert [line for line in text.splitlines() if "shut down in" in line] == [
        f"| `{name}` | {words} |" for name, words in zip(networks.closed(), said, strict=True)
    ]
    assert [name for name in networks.CHECKS if f"`{name}`" not in text] == []
    fees = (PROJECT / "docs/fee-estimation.md").read_text()
    assert [kind for kind in NetworkKind if f"- **`{kind}`**: " not in fees] == []
