"""Where prices come from, a file for each kind of source."""

from rpc.fees.sources.base import Source
from rpc.fees.sources.chainlink import ChainlinkNative, ChainlinkUsd
from rpc.fees.sources.fixed import Fixed
from rpc.fees.sources.uniswap_v2 import UniswapV2
from rpc.models import PriceSource

SOURCES: dict[str, type[Source]] = {
    PriceSource.Kind.FIXED: Fixed,
    PriceSource.Kind.CHAINLINK_USD: ChainlinkUsd,
    PriceSource.Kind.CHAINLINK_NATIVE: ChainlinkNative,
    PriceSource.Kind.UNISWAP_V2: UniswapV2,
}
