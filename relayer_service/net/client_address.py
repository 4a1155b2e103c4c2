"""The client's address behind trusted proxies."""

import ipaddress
from collections.abc import Iterable

from relayer_service.configuration.environment import Network

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse(text: str) -> Address | None:
    """Return the address in a text, as IPv4 where it is IPv4 written as IPv6, or None."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def within(text: str, networks: Iterable[Network]) -> bool:
    address = parse(text)
    return address is not None and any(address in network for network in networks)


def resolve(peer: str, forwarded_for: str, trusted: Iterable[Network]) -> str:
    """Return the nearest address that is not a trusted proxy: clients control everything left of it.

    A trusted proxy that names no readable address leaves the client's unknown, which is "" and within no network.
    """
    trusted = list(trusted)
    if not within(peer, trusted):
        return peer
    client = None
    for text in reversed([hop for hop in forwarded_for.split(",") if hop.strip()]):
        client = parse(text)
        if client is None or not within(str(client), trusted):
            break
    return str(client or "")
