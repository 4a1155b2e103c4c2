"""The symbols of configured tokens, for pages of other apps."""

from collections.abc import Collection, Iterator

from rpc.models import FeeToken


def find(keys: Collection[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], tuple[str, int]]]:
    """Yield network and address, and symbol and decimals, of the fee tokens among these whose decimals were read."""
    networks, addresses = zip(*keys, strict=True)
    tokens = FeeToken.objects.filter(network__in={*networks}, address__in={*addresses}, decimals__isnull=False)
    for network, address, symbol, decimals in tokens.values_list("network", "address", "symbol", "decimals"):
        yield (network, address), (symbol, decimals or 0)
