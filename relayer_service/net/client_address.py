"""Who is calling, behind the proxies that are trusted to say so."""

import ipaddress
from collections.abc import Iterable

from relayer_service.ops.environment import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse(text: str) -> Address | None:
    """Read an address; an IPv4 address written as IPv6 is the IPv4 address."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def within(text: str, networks: Iterable[Network]) -> bool:
    address = parse(text)
    return address is not None and any(address in network for network in networks)


def resolve(peer: str, forwarded_for: str, trusted: Iterable[Network]) -> str:
    """Give the nearest address that is no trusted proxy: what stands left of it anyone can write."""
    trusted = list(trusted)
    hops = [hop for hop in forwarded_for.split(",") if hop.strip()]
    client = peer
    while hops and within(client, trusted):
        hop = parse(hops.pop())
        if hop is None:
            break
        client = str(hop)
    return client
