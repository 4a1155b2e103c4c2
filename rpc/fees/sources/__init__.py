"""Price sources, one file per kind."""

from rpc.fees.sources.base import Source
from rpc.fees.sources.chainlink import Chainlink
from rpc.fees.sources.fixed import Fixed
from rpc.fees.sources.uniswap_v2 import UniswapV2
from rpc.models import PriceSource

SOURCES: dict[str, type[Source]] = {
    PriceSource.Kind.FIXED: Fixed,
    PriceSource.Kind.CHAINLINK_USD: Chainlink,
    PriceSource.Kind.CHAINLINK_NATIVE: Chainlink,
    PriceSource.Kind.UNISWAP_V2: UniswapV2,
}
