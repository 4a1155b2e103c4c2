"""Finding the token that a fee is quoted in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from eth_utils.address import is_hex_address, to_checksum_address

from relayer_service.storage.ttl_cache import TTLCache
from relayers.chain.networks import Network
from relayers.policies import validate_evm_address
from rpc import errors
from rpc.fees.sources import SOURCES
from rpc.fees.sources.base import Source
from rpc.models import FeeToken, PriceSource

# Of an address; symbols are shorter.
MAX_LENGTH = 42


@dataclass(frozen=True)
class Token:
    """A registered token with the sources of its price: a snapshot that threads can share."""

    pk: int
    network: str
    symbol: str
    address: str
    # None until they are read from the chain.
    decimals: int | None = None
    margin_bps: int = 0
    max_spread_bps: int = 0
    sources: tuple[Source, ...] = ()

    @classmethod
    def of(cls, row: FeeToken, sources: Sequence[PriceSource], network: Network) -> Token:
        return cls(
            pk=row.pk,
            network=row.network,
            symbol=row.symbol,
            address=row.address,
            decimals=row.decimals,
            margin_bps=row.margin_bps,
            max_spread_bps=row.max_spread_bps,
            sources=tuple(SOURCES[source.kind].of(source, row, network) for source in sources),
        )

    def __str__(self) -> str:
        return f"{self.symbol} on {self.network}"


_tokens: TTLCache[tuple[str, str], Token] = TTLCache()


def find(network: Network, fee_token: str) -> Token | None:
    """Return a token by its symbol, to the letter, or by its address; None for the native coin."""
    if fee_token == network.symbol:
        return None
    key = (network.name, fee_token)
    return _tokens.get_or_read(key, lambda: _read(network, fee_token), settings.RPC_CACHE_SECONDS)


def _read(network: Network, fee_token: str) -> Token:
    by = {"token__symbol": fee_token}
    if fee_token.startswith("0x") and is_hex_address(fee_token):
        try:
            validate_evm_address(fee_token)
        except ValidationError as error:
            raise errors.InvalidParams(f"fee_token: {error.message}") from None
        by = {"token__address": to_checksum_address(fee_token)}
    sources: list[PriceSource] = []
    # PostgreSQL refuses to look for a NUL, which no symbol has.
    if len(fee_token) <= MAX_LENGTH and "\0" not in fee_token:
        enabled = PriceSource.objects.filter(token__network=network.name, token__enabled=True, **by)
        sources = list(enabled.select_related("token").order_by("pk"))
    if not sources:
        raise errors.TokenNotSupported(
            f"Fees cannot be told in this token on {network.name}: it is not registered or has no source of its price."
        )
    return Token.of(sources[0].token, sources, network)


def keep_decimals(fee_token: str, token: Token, decimals: int) -> None:
    """Store the decimals of a token that was found as `fee_token`, so that the chain is asked for them once."""
    # Unless staff have made it another token meanwhile.
    same = FeeToken.objects.filter(pk=token.pk, network=token.network, address=token.address, decimals=None)
    same.update(decimals=decimals)
    # The next caller reads them with the row: this snapshot may be older than what another has cached meanwhile.
    _tokens.remove((token.network, fee_token))
