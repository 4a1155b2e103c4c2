"""EVM addresses with their checksum."""

from functools import lru_cache

from eth_utils.address import to_checksum_address

# Addresses repeat, and a checksum requires a hash.
checksummed = lru_cache(maxsize=10_000)(to_checksum_address)
