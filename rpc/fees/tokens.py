"""Finding the token that a fee is quoted in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Self

from django.core.exceptions import ValidationError
from django.db.models import Q
from eth_utils.address import is_hex_address, to_checksum_address

from chain.networks import Network
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.evm import validate_evm_address
from rpc import errors, relayer_lookup
from rpc.errors import RpcError
from rpc.fees.sources import SOURCES
from rpc.fees.sources.base import Source
from rpc.models import FeeToken, PriceSource

# Length of an address; symbols are shorter.
MAX_LENGTH = 42
# How many symbols an error lists.
MAX_LISTED = 20


@dataclass(frozen=True)
class Token:
    """A snapshot of a registered token and its price sources that threads can share."""

    pk: int
    network: str
    symbol: str
    address: str
    # None until read from the chain.
    decimals: int | None = None
    margin_bps: int = 0
    max_spread_bps: int = 0
    sources: tuple[Source, ...] = ()

    @classmethod
    def from_row(cls, row: FeeToken, sources: Sequence[PriceSource], network: Network) -> Self:
        columns = (row.pk, row.network, row.symbol, row.address, row.decimals, row.margin_bps, row.max_spread_bps)
        return cls(*columns, tuple(SOURCES[source.kind].from_row(source, row, network) for source in sources))

    def __str__(self) -> str:
        return f"{self.symbol} on {self.network}"


# None is the native coin.
TokenOrError = Token | RpcError | None

# By network and requested names, None for all.
_found: TTLCache[tuple[str, tuple[str, ...] | None], dict[str, TokenOrError]] = TTLCache()


def find_all(network: Network, fee_tokens: Sequence[str] | None) -> Mapping[str, TokenOrError]:
    """Return tokens by requested name, an exact symbol or an address; by default all of the network by symbol."""
    names = None if fee_tokens is None else tuple(fee_tokens)
    return _found.get_or_read((network.name, names), lambda: _read(network, names), relayer_lookup.CACHE_SECONDS)


def _read(network: Network, names: Sequence[str] | None) -> dict[str, TokenOrError]:
    sources = PriceSource.objects.filter(token__network=network.name, token__enabled=True)
    keys = {name: _key(name) for name in names or () if name != network.symbol}
    if names is not None:
        wanted = [key for key in keys.values() if isinstance(key, str) and len(key) <= MAX_LENGTH]
        sources = sources.filter(Q(token__symbol__in=wanted) | Q(token__address__in=wanted))
    groups = groupby(sources.select_related("token").order_by("token__symbol", "pk"), lambda source: source.token)
    tokens = [Token.from_row(row, list(group), network) for row, group in groups]
    if names is None:
        return {token.symbol: token for token in tokens}
    known = {key: token for token in tokens for key in (token.symbol, token.address)}
    not_supported = cache(partial(_not_supported, network))
    found: dict[str, TokenOrError] = dict.fromkeys(names)
    for name, key in keys.items():
        found[name] = key if isinstance(key, RpcError) else known.get(key) or not_supported()
    return found


def _key(name: str) -> str | RpcError:
    """Return an address with its checksum, or its error; any other name is a symbol, which is returned as it is."""
    if not (name.startswith("0x") and is_hex_address(name)):
        return name
    try:
        validate_evm_address(name)
    except ValidationError as error:
        return errors.InvalidParams(f"fee_token: {error.message}")
    return str(to_checksum_address(name))


def _not_supported(network: Network) -> RpcError:
    """Return the error of an unsupported token, which lists the symbols that fees can be quoted in."""
    tokens = FeeToken.objects.filter(network=network.name, enabled=True, sources__isnull=False).order_by("symbol")
    found = list(tokens.values_list("symbol", flat=True).distinct()[: MAX_LISTED + 1])
    symbols = ", ".join(dict.fromkeys([network.symbol, *found[:MAX_LISTED]]))
    return errors.TokenNotSupported(
        f"Fees cannot be quoted in this token on {network.name}: it is not registered or has no price source. "
        f"Use one of: {symbols}{' and others' if len(found) > MAX_LISTED else ''}."
    )


def store_decimals(token: Token, decimals: int) -> None:
    """Store the decimals of a token, unless its network or address was changed concurrently."""
    same = FeeToken.objects.filter(pk=token.pk, network=token.network, address=token.address, decimals=None)
    same.update(decimals=decimals)
    # The next caller reads the row: this snapshot may be older than a cached one.
    _found.remove_where(lambda found: any(isinstance(each, Token) and each.pk == token.pk for each in found.values()))
