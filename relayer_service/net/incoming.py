"""Incoming requests: the client's address behind trusted proxies, unreadable headers, and challenges (RFC 6750)."""

import ipaddress
from collections.abc import Iterable

from rest_framework.exceptions import PermissionDenied

from relayer_service.net.addresses import Address, Network

# The environ key for the name of a header with a non-ASCII value, which the web server does not pass on. No client can
# set it: the keys of headers begin with HTTP_ or CONTENT_.
UNREADABLE_HEADER = "relayer.unreadable_header"
# IPv6 networks are assigned in this size: a client has all addresses in it.
IPV6_PREFIX = 64


class InsufficientScope(PermissionDenied):
    """The token lacks a scope; the response names it."""

    def __init__(self, scope: str) -> None:
        super().__init__(code="insufficient_scope")
        self.auth_header = f'Bearer error="insufficient_scope", scope="{scope}"'


def parse_address(text: str) -> Address | None:
    """Return an address, with IPv4-mapped IPv6 as IPv4, or None if it is not valid."""
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def client_network(text: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address; empty if it is unknown."""
    address = parse_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, IPV6_PREFIX), strict=False))
    return str(address or "")


def is_within(text: str, networks: Iterable[Network]) -> bool:
    address = parse_address(text)
    return address is not None and any(address in network for network in networks)


def client_address(peer: str, forwarded_for: str, trusted: Iterable[Network]) -> str:
    """Return the nearest address that is not a trusted proxy: clients control everything left of it.

    If a trusted proxy names no valid address, the client's is unknown: "", which is within no network.
    """
    trusted = list(trusted)
    if not is_within(peer, trusted):
        return peer
    client = None
    for text in reversed([hop for hop in forwarded_for.split(",") if hop.strip()]):
        client = parse_address(text)
        if client is None or not is_within(str(client), trusted):
            break
    return str(client or "")
