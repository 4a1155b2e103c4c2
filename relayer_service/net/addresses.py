"""Outgoing URLs: validation, masking, and the addresses that may be connected to."""

import ipaddress
import re
import unicodedata
from collections.abc import Iterable, Iterator
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ValidationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# From the IANA registries of special-purpose addresses. Python's `is_private` and `is_global` each miss some of them.
FORBIDDEN: list[Network] = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, where clouds serve their metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, with one cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # automatic multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks of network devices
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "168.63.129.16/32",  # one cloud's metadata, on a public address
        # All of IPv6 outside of 2000::/3, the one block that public addresses come from.
        "::/3",  # unspecified, loopback, discard, and IPv4 in IPv6: compatible, mapped, translated, NAT64
        "4000::/2",  # segment routing
        "8000::/1",  # unique local, link-local, site-local, multicast
        "2001::/23",  # protocol assignments, with Teredo, benchmarks and ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
]
# Cloud metadata services, which return the machine's credentials.
METADATA: list[Network] = [
    ipaddress.ip_network(network)
    for network in (
        "169.254.0.0/16",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fd00:42::42/128",
        "fd00:100::100:200/128",
        "fd00:a9fe:a9fe::1/128",
        "fd00:c1::a9fe:a9fe/128",
        "fd00:ec2::/32",
        "fd20:ce::/32",
        "fe80::/10",
    )
]
# IPv6 networks whose addresses carry an IPv4 address, and the bytes that may hold it. A local NAT64 prefix has 48,
# 56, 64 or 96 bits, and the ninth byte is never part of the IPv4 address (RFC 6052, RFC 8215).
LAST_BYTES = (12, 13, 14, 15)
WITH_IPV4: dict[ipaddress.IPv6Network, list[tuple[int, ...]]] = {
    ipaddress.IPv6Network("::/96"): [LAST_BYTES],  # IPv4-compatible
    ipaddress.IPv6Network("::ffff:0:0/96"): [LAST_BYTES],  # IPv4-mapped
    ipaddress.IPv6Network("::ffff:0:0:0/96"): [LAST_BYTES],  # IPv4-translated
    ipaddress.IPv6Network("64:ff9b::/96"): [LAST_BYTES],  # NAT64
    ipaddress.IPv6Network("64:ff9b:1::/48"): [(6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), LAST_BYTES],
    ipaddress.IPv6Network("2002::/16"): [(2, 3, 4, 5)],  # 6to4
}
MASK = "***"
# A shortened URL shows this much of its path: less than a key.
MAX_PATH_SHOWN = 12
# Longer URLs are slow to validate, and no server accepts them.
MAX_URL_LENGTH = 65_536
MIN_UNPRIVILEGED_PORT = 1024
MAX_HOST_LENGTH = 253
WELL_KNOWN_PORTS = {80, 443}
# Unicode's categories of control characters, surrogates and all kinds of space.
UNPRINTED = {"Cc", "Cs", "Zs", "Zl", "Zp"}
# Variants do not end the user info of a URL, but were meant to.
AT_SIGN = re.compile("@|%40|\uff20|\ufe6b")
HOST_AND_PORT = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]+)(:[0-9]*)?")
# A DNS name or an address.
HOST = re.compile(r"[0-9A-Za-z._-]+|[0-9A-Fa-f:.]+(%[0-9A-Za-z._-]+)?")
# Resolvers read a host that ends in a number as an IPv4 address, in forms such as 127.1 and 0x7f000001.
ENDS_IN_NUMBER = re.compile(r"(^|\.)([0-9]+|0x[0-9a-f]*)\.?$")


def is_allowed(address: str, opened: Iterable[Network] = ()) -> bool:
    """Return whether an address may be connected to: public or in an allowed network, and no metadata service."""
    # The scope of an IPv6 address only names an interface.
    ip = ipaddress.ip_address(address.partition("%")[0])
    forms = [ip, *(embedded_ipv4(ip) if isinstance(ip, ipaddress.IPv6Address) else ())]
    if any(form in network for form in forms for network in METADATA):
        return False
    return any(ip in network for network in opened) or not any(ip in network for network in FORBIDDEN)


def embedded_ipv4(ip: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses to which an IPv6 address may be translated, or through which it may be tunnelled."""
    if ip.teredo:
        yield from ip.teredo
    for network, places in WITH_IPV4.items():
        if ip in network:
            yield from (ipaddress.IPv4Address(bytes(ip.packed[byte] for byte in place)) for place in places)


def mask(url: str) -> str:
    """Return a URL without its user info, path and query, which may contain a key."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    hides = "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment
    return f"{parts.scheme}://{host}/{MASK}" if hides else f"{parts.scheme}://{host}"


def shorten(url: str) -> str:
    """Return a URL without its user info and query, and with the start of its path: the rest may contain a key."""
    parts = urlsplit(url)
    base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if len(parts.path) <= MAX_PATH_SHOWN and not (parts.query or parts.fragment):
        return f"{base}{parts.path}"
    return f"{base}{parts.path[:MAX_PATH_SHOWN]}…"


def refuse_user_info(value: str) -> None:
    """Raise ValidationError for a user name or password in a URL that is stored in plain text.

    In a value that is not a URL, anything before an @, in any encoding, may be one.
    """
    try:
        authority = split_http_url(value).netloc
    except ValidationError:
        authority = value
    if AT_SIGN.search(authority):
        raise ValidationError("a user name or a password is not allowed in this URL")


def without_user_info(url: str) -> str:
    """Return a URL without user name and password, which earlier releases accepted."""
    try:
        parts = split_http_url(url)
    except ValidationError:
        return AT_SIGN.split(url)[-1]
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if host != parts.netloc else url


def validate_http_url(value: str) -> None:
    """Raise ValidationError unless a value is an absolute http or https URL."""
    split_http_url(value)


def split_http_url(value: str) -> SplitResult:
    if len(value) > MAX_URL_LENGTH:
        raise ValidationError(f"at most {MAX_URL_LENGTH} characters are allowed")
    if any(unicodedata.category(character) in UNPRINTED or character == "\\" for character in value):
        raise ValidationError("spaces, backslashes and control characters are not allowed in a URL")
    try:
        parts = urlsplit(value)
        host, port = ascii_host(parts.hostname or ""), parts.port
        if not HOST_AND_PORT.fullmatch(parts.netloc.rpartition("@")[2]) or not HOST.fullmatch(host):
            host = ""
    except ValueError:
        host, port = "", None
    ambiguous = ENDS_IN_NUMBER.search(host) and literal_address(host) is None
    if not host or ambiguous or parts.scheme not in {"http", "https"} or port == 0:
        raise ValidationError("an absolute http or https URL is required")
    return parts


def port_of(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_allowed_port(port: int) -> bool:
    return port in WELL_KNOWN_PORTS or port >= MIN_UNPRIVILEGED_PORT


def literal_address(host: str) -> str | None:
    """Return the address of a URL's host, in any notation, or None for a name."""
    try:
        return str(ipaddress.ip_address(ascii_host(host)))
    except ValueError:
        return None


def ascii_host(host: str) -> str:
    """Return a host encoded for DNS; raise ValueError if it cannot be."""
    # A host of this length is longer than any name, and slow to encode.
    if len(host) > MAX_HOST_LENGTH:
        raise ValueError("too long")
    return host.encode("idna").decode()
