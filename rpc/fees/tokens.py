"""Finding the token that a fee is to be told in."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.core.exceptions import ValidationError
from eth_utils.address import is_hex_address, to_checksum_address

from relayer_service.storage.lookups import Lookup, from_columns, in_order
from relayers.chain.networks import Network
from relayers.policies import validate_evm_address
from rpc import errors
from rpc.kept import Kept
from rpc.models import FeeToken, PriceSource

SOURCE_COLUMNS = in_order(PriceSource)
TOKEN_COLUMNS = in_order(FeeToken, "id", "network", "symbol", "address", "decimals", "margin_bps", "max_spread_bps")
BY_SYMBOL, BY_ADDRESS = (
    Lookup(
        PriceSource.objects.filter(token__enabled=True).order_by("pk"),
        ["token__network", f"token__{name}"],
        [*SOURCE_COLUMNS, *(f"token__{column}" for column in TOKEN_COLUMNS)],
    )
    for name in ("symbol", "address")
)


@dataclass(frozen=True)
class PaidIn:
    """A registered token with its sources; no token is the native coin."""

    token: FeeToken | None = None
    sources: tuple[PriceSource, ...] = ()


# An address; symbols are shorter.
LONGEST = 42

kept: Kept[PaidIn] = Kept()


def find(network: Network, fee_token: str) -> PaidIn:
    """Find a token by its symbol, to the letter, or by its address; with its sources, in one query."""
    if fee_token == network.symbol:
        return PaidIn()
    if len(fee_token) > LONGEST:
        raise _not_supported(network)
    return kept.get((network.name, fee_token), lambda: _read(network, fee_token), settings.RPC_CACHE_SECONDS)


def _read(network: Network, fee_token: str) -> PaidIn:
    if fee_token.startswith("0x") and is_hex_address(fee_token):
        try:
            validate_evm_address(fee_token)
        except ValidationError as error:
            raise errors.InvalidParams(f"fee_token: {error.message}") from None
        rows = BY_ADDRESS.rows(token__network=network.name, token__address=to_checksum_address(fee_token))
    else:
        # PostgreSQL takes no NUL, so that no symbol has one.
        rows = [] if "\0" in fee_token else BY_SYMBOL.rows(token__network=network.name, token__symbol=fee_token)
    if not rows:
        raise _not_supported(network)
    count = len(SOURCE_COLUMNS)
    token = from_columns(FeeToken, TOKEN_COLUMNS, rows[0][count:])
    return PaidIn(token, tuple(from_columns(PriceSource, SOURCE_COLUMNS, row[:count]) for row in rows))


def _not_supported(network: Network) -> errors.TokenNotSupported:
    return errors.TokenNotSupported(
        f"Fees cannot be told in this token on {network.name}: it is not registered or has no source of its price."
    )
