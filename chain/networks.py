"""The supported networks: `networks.json`, and what NETWORKS_FILE adds or replaces."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from eth_utils.address import is_checksum_address

from relayer_service.net.addresses import refuse_user_info, validate_http_url

SHIPPED = Path(__file__).parent / "networks.json"


class NetworkKind(StrEnum):
    """How a network charges for a transaction; `fees/network_fees.py` has a class for each."""

    NONE = "none"
    OP_STACK = "op-stack"
    MANTLE = "mantle"
    ARBITRUM = "arbitrum"
    LINEA = "linea"
    SCROLL = "scroll"
    ZKSYNC = "zksync"


class BaseFeeRule(StrEnum):
    """The source of the next base fee if the fee history ends with the last block."""

    EIP_1559 = "eip-1559"
    ETH_BASE_FEE = "eth_baseFee"
    # It changes slowly: the base fee of the last block, with the margin.
    LAST_BLOCK = "last-block"
    # There is no base fee, but a single price by `eth_gasPrice`.
    NONE = "none"


class Mempool(StrEnum):
    """Where transactions wait for a block."""

    PUBLIC = "public"
    # Nodes pass them to a sequencer and keep none: each is sent after the one before was accepted.
    NONE = "none"


# Returns the value of a field as it is stored; raises a ValidationError if it is invalid.
Check = Callable[[Any], Any]


def _must_be(description: str, is_valid: Callable[[Any], bool]) -> Check:
    def check(value: Any) -> Any:
        if not is_valid(value):
            raise ValidationError(f"must be {description}")
        return value

    return check


def _whole(minimum: int, maximum: int | None = None) -> Check:
    limits = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    highest = math.inf if maximum is None else maximum
    # `type`, not `isinstance`: a bool is an int.
    return _must_be(f"a whole number {limits}", lambda value: type(value) is int and minimum <= value <= highest)


def _one_of(choices: type[StrEnum]) -> Check:
    check = _must_be(f"one of: {', '.join(choices)}", lambda value: value in [*choices])
    return lambda value: choices(check(value))


_object = _must_be("an object", lambda value: isinstance(value, dict))
_list = _must_be("a list", lambda value: isinstance(value, list))
_boolean = _must_be("true or false", lambda value: isinstance(value, bool))
_text = _must_be("a string", lambda value: isinstance(value, str) and value != "")
_seconds = _must_be("a number above 0", lambda value: type(value) in {int, float} and 0 < value < math.inf)
_address = _must_be("a checksummed address", lambda value: isinstance(value, str) and is_checksum_address(value))


def _urls(value: Any) -> tuple[str, ...]:
    for url in _list(value):
        validate_http_url(_text(url))
    return tuple(value)


def _public_url(value: Any) -> str:
    (url,) = _urls([value])
    refuse_user_info(url)
    return url


@dataclass(frozen=True)
class Network:
    """A network, with the check of each field that a file can have."""

    name: str
    chain_id: Annotated[int, _whole(1, 2**63 - 1)]
    symbol: Annotated[str, _text]
    decimals: Annotated[int, _whole(0, 255)]
    block_seconds: Annotated[float, _seconds]
    kind: Annotated[NetworkKind, _one_of(NetworkKind)] = NetworkKind.NONE
    rpc_urls: Annotated[tuple[str, ...], _urls] = ()
    testnet: Annotated[bool, _boolean] = False
    # How fees are quoted: the minimum priority fee in wei, and basis points.
    tip_floor: Annotated[int, _whole(0)] = 1_000_000
    base_fee_margin_bps: Annotated[int, _whole(0)] = 2_000
    gas_buffer_bps: Annotated[int, _whole(0)] = 1_000
    l1_fee_margin_bps: Annotated[int, _whole(0)] = 1_000
    base_fee_rule: Annotated[BaseFeeRule, _one_of(BaseFeeRule)] = BaseFeeRule.EIP_1559
    # Whether the fee history reports how full blocks were.
    reports_fullness: Annotated[bool, _boolean] = True
    # The part of unused gas that is charged, in basis points.
    unused_gas_charge_bps: Annotated[int, _whole(0, 10_000)] = 0
    # Maximum gas, bytes of creation code, bytes when signed, and blobs of a transaction; None if unknown.
    tx_gas_cap: Annotated[int | None, _whole(21_000)] = None
    max_initcode: Annotated[int | None, _whole(1)] = 49_152
    max_tx_bytes: Annotated[int | None, _whole(1_000)] = 131_072
    blobs_per_tx: Annotated[int | None, _whole(0)] = None
    # Whether calldata has the minimum price in gas of EIP-7623.
    has_data_floor: Annotated[bool, _boolean] = True
    # A node whose head block is older is behind; None if blocks are mined on demand.
    max_head_age_seconds: Annotated[int | None, _whole(1)] = None
    # Blocks until a transaction is final; None if nodes support the tag `finalized`.
    finality_depth: Annotated[int | None, _whole(0)] = None
    # Blocks until a transaction is confirmed, counted from its own block.
    confirmations: Annotated[int, _whole(1)] = 12
    # Maximum number of unmined transactions of an account.
    window: Annotated[int, _whole(1, 1_000)] = 16
    mempool: Annotated[Mempool, _one_of(Mempool)] = Mempool.PUBLIC
    # Maximum price of a unit of gas for relayers without a cap, in wei: a node that lies must not burn funds.
    max_gas_price: Annotated[int, _whole(1, 2**128 - 1)] = 10_000 * 10**9
    # Maximum tip that nodes are believed, in wei; None for a tenth of the above.
    max_priority_fee: Annotated[int | None, _whole(0, 2**128 - 1)] = None
    # Nodes that keep transactions to themselves until a block has them; never read from.
    private_rpc_urls: Annotated[tuple[str, ...], _urls] = ()
    explorer: Annotated[str, _public_url] = ""
    # Chainlink's sequencer uptime feed.
    sequencer_feed: Annotated[str, _address] = ""
    network_type: str = "evm"

    @property
    def tip_ceiling(self) -> int:
        return self.max_gas_price // 10 if self.max_priority_fee is None else self.max_priority_fee


REQUIRED = ("chain_id", "symbol", "decimals", "block_seconds")
_HINTS = get_type_hints(Network, include_extras=True).items()
# The fields of a file.
CHECKS: dict[str, Check] = {name: hint.__metadata__[0] for name, hint in _HINTS if get_origin(hint) is Annotated}
WITH_DEFAULT = {"max_initcode", "max_tx_bytes"}
# Field names of earlier releases.
RENAMED = {"l1_fee": "kind"}


def read(path: Path) -> dict[str, Network]:
    """Return the networks of a file; raise `ImproperlyConfigured` with the path of the first fault."""
    entries = _load(path)
    if not isinstance(entries, dict) or not isinstance(entries.get("networks"), dict):
        raise ImproperlyConfigured(f"{path.name} must be an object with the field `networks`, an object")
    found = {}
    for name, entry in entries["networks"].items():
        try:
            found[name] = parse_network(name, entry)
        except ValidationError as error:
            raise ImproperlyConfigured(f"{path.name}: {name}: {error.message}") from None
    return found


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{path.name} cannot be read as JSON: {error}") from None


def parse_network(name: str, entry: Any) -> Network:
    """Return the network of an entry of a file; raise `ValidationError` with the first fault."""
    _object(entry)
    for old, new in RENAMED.items():
        if {old, new} <= entry.keys():
            raise ValidationError(f"{old}: renamed to {new}, which is also set")
    given: dict[str, Any] = {RENAMED.get(key, key): value for key, value in entry.items()}
    for key in given.keys() - CHECKS.keys():
        raise ValidationError(f"{key}: unknown field; use one of: {', '.join(sorted(CHECKS))}")
    # Null is the same as omitted, except for the limits that have a default.
    values = {key: value for key, value in given.items() if value is not None or key in WITH_DEFAULT}
    if missing := [key for key in REQUIRED if key not in values]:
        raise ValidationError(f"{missing[0]}: this field is required")
    for key, value in values.items():
        try:
            values[key] = None if value is None else CHECKS[key](value)
        except ValidationError as error:
            raise ValidationError(f"{key}: {error.message}") from None
    return Network(name=name, **values)


@cache
def networks() -> dict[str, Network]:
    found = read(SHIPPED)
    if settings.NETWORKS_FILE:
        found |= read(Path(settings.NETWORKS_FILE))
    return found


def network_by_chain_id(chain_id: int) -> Network | None:
    return next((network for network in networks().values() if network.chain_id == chain_id), None)


@cache
def closed() -> dict[str, str]:
    """Return messages about networks that were shut down, by name; NETWORKS_FILE may still define them."""
    found: dict[str, str] = _load(SHIPPED)["closed"]
    return found


@cache
def aliases() -> dict[str, str]:
    """Return the names of networks by those that OpenZeppelin Relayer has for them."""
    found: dict[str, str] = _load(SHIPPED)["aliases"]
    return found


def resolve_alias(name: str) -> str:
    """Return the name of a network; any other name, or one that NETWORKS_FILE defines, is returned as it is."""
    return name if name in networks() else aliases().get(name, name)


def unknown(name: str, remedy: str) -> str:
    """Return the error message for a network that is not among `networks`."""
    return closed().get(name, f"unknown network: {remedy}")
