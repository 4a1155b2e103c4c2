"""The networks that relayers can be on: facts from `networks.json`, and what NETWORKS_FILE adds or replaces."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from eth_utils.address import is_checksum_address

from relayer_service.net.addresses import refuse_user_info, validate_http_url

SHIPPED = Path(__file__).parent / "networks.json"


class NetworkKind(StrEnum):
    """How a network charges for a transaction; `kinds/` has a class for each."""

    NONE = "none"
    OP_STACK = "op-stack"
    MANTLE = "mantle"
    ARBITRUM = "arbitrum"
    LINEA = "linea"
    SCROLL = "scroll"
    ZKSYNC = "zksync"


class BaseFeeRule(StrEnum):
    """Where the next base fee comes from if the fee history ends with the last block."""

    EIP_1559 = "eip-1559"
    # The node says it when asked by `eth_baseFee`.
    ASKED = "eth_baseFee"
    # It moves slowly: that of the last block counts, with the margin.
    LAST_BLOCK = "last-block"
    # There is no base fee: the node says one price, by `eth_gasPrice`.
    NONE = "none"


@dataclass(frozen=True)
class Network:
    name: str
    chain_id: int
    symbol: str
    decimals: int
    block_seconds: float
    kind: NetworkKind
    rpc_urls: tuple[str, ...]
    testnet: bool = False
    # How fees are quoted here unless a setting says so: the minimum priority fee in wei, and basis points.
    tip_floor: int | None = None
    base_fee_margin_bps: int | None = None
    gas_buffer_bps: int | None = None
    l1_fee_margin_bps: int | None = None
    base_fee_rule: BaseFeeRule = BaseFeeRule.EIP_1559
    # Whether the fee history says how full blocks were.
    reports_fullness: bool = True
    # The part of the unused gas that is paid for all the same, in basis points.
    unused_gas_charge_bps: int = 0
    # What the network takes: gas of a transaction, bytes of creation code, blobs of a transaction. None is unknown.
    tx_gas_cap: int | None = None
    max_initcode: int | None = 49_152
    blobs_per_tx: int | None = None
    # Whether calldata has a minimum price in gas, by EIP-7623.
    has_data_floor: bool = True
    # A node whose head block is older than this is behind; None where blocks are made on demand.
    max_head_age_seconds: int | None = None
    # Blocks until a transaction counts as final; None where the node's tag `finalized` says it.
    finality_depth: int | None = None
    explorer: str = ""
    # Chainlink's feed of whether the sequencer of a rollup is up.
    sequencer_feed: str = ""
    network_type: str = "evm"


# The checks of a file raise ValidationError with what is required.
Check = Callable[[Any], None]


def _require(fits: bool, words: str) -> None:
    if not fits:
        raise ValidationError(words)


def _whole(minimum: int, maximum: int | None = None) -> Check:
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"

    def check(value: Any) -> None:
        # `type`, not `isinstance`: a bool is an int.
        fits = type(value) is int and value >= minimum and (maximum is None or value <= maximum)
        _require(fits, f"a whole number {limits} is required")

    return check


def _one_of(choices: type[StrEnum]) -> Check:
    return lambda value: _require(value in [*choices], f"must be one of: {', '.join(choices)}")


def _switch(value: Any) -> None:
    _require(isinstance(value, bool), "true or false is required")


def _text(value: Any) -> None:
    _require(isinstance(value, str) and bool(value), "a string is required")


def _seconds(value: Any) -> None:
    _require(type(value) in {int, float} and 0 < value < math.inf, "a number above 0 is required")


def _url(value: Any) -> None:
    _text(value)
    validate_http_url(value)


def _shown_url(value: Any) -> None:
    _url(value)
    refuse_user_info(value)


def _urls(value: Any) -> None:
    _require(isinstance(value, list), "a list is required")
    for url in value:
        _url(url)


def _address(value: Any) -> None:
    _require(isinstance(value, str) and is_checksum_address(value), "an address with its checksum is required")


REQUIRED = ("chain_id", "symbol", "decimals", "block_seconds")
# What an entry of a file may say.
CHECKS: dict[str, Check] = {
    "chain_id": _whole(1, 2**63 - 1),
    "symbol": _text,
    "decimals": _whole(0, 255),
    "block_seconds": _seconds,
    "kind": _one_of(NetworkKind),
    "rpc_urls": _urls,
    "testnet": _switch,
    "tip_floor": _whole(0),
    "base_fee_margin_bps": _whole(0),
    "gas_buffer_bps": _whole(0),
    "l1_fee_margin_bps": _whole(0),
    "base_fee_rule": _one_of(BaseFeeRule),
    "reports_fullness": _switch,
    "unused_gas_charge_bps": _whole(0, 10_000),
    "tx_gas_cap": _whole(21_000),
    "max_initcode": _whole(1),
    "blobs_per_tx": _whole(0),
    "has_data_floor": _switch,
    "max_head_age_seconds": _whole(1),
    "finality_depth": _whole(0),
    "explorer": _shown_url,
    "sequencer_feed": _address,
}
# What a field was called in files of earlier releases.
RENAMED = {"l1_fee": "kind"}


def read(path: Path) -> dict[str, Network]:
    """Return the networks of a file; a mistake in it is a start-up error that says where it is."""
    entries = _load(path)
    if not isinstance(entries, dict) or not isinstance(entries.get("networks"), dict):
        raise ImproperlyConfigured(f"{path.name} must be an object with `networks`, an object by name")
    found = {}
    for name, entry in entries["networks"].items():
        try:
            found[name] = _network(name, entry)
        except ValidationError as error:
            raise ImproperlyConfigured(f"{path.name}: {name}: {error.message}") from None
    return found


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{path.name} cannot be read as JSON: {error}") from None


def _network(name: str, entry: Any) -> Network:
    _require(isinstance(entry, dict), "an object is required")
    for old, new in RENAMED.items():
        _require(not {old, new} <= entry.keys(), f"{old}: it is called {new} now, which is there too")
    given: dict[str, Any] = {RENAMED.get(key, key): value for key, value in entry.items()}
    for key in given.keys() - CHECKS.keys():
        raise ValidationError(f"{key}: unknown field; the fields are {', '.join(sorted(CHECKS))}")
    # Null is the same as left out, but for the one limit that a network has unless it says that it has none.
    values = {key: value for key, value in given.items() if value is not None or key == "max_initcode"}
    for key in REQUIRED:
        _require(key in values, f"{key}: this field is required")
    for key, value in values.items():
        try:
            if value is not None:
                CHECKS[key](value)
        except ValidationError as error:
            raise ValidationError(f"{key}: {error.message}") from None
    values["kind"] = NetworkKind(values.get("kind", NetworkKind.NONE))
    values["base_fee_rule"] = BaseFeeRule(values.get("base_fee_rule", BaseFeeRule.EIP_1559))
    values["rpc_urls"] = tuple(values.get("rpc_urls", ()))
    return Network(name=name, **values)


@cache
def networks() -> dict[str, Network]:
    """Return all networks by name."""
    found = read(SHIPPED)
    if settings.NETWORKS_FILE:
        found |= read(Path(settings.NETWORKS_FILE))
    return found


@cache
def closed() -> dict[str, str]:
    """Return what happened to networks that are no more, by name; NETWORKS_FILE may have one of them all the same."""
    found: dict[str, str] = _load(SHIPPED)["closed"]
    return found


def unknown(name: str, remedy: str) -> str:
    """Return why a network that is not among `networks` cannot be used, and what can be done about it."""
    return closed().get(name, f"this network is not known: {remedy}")
