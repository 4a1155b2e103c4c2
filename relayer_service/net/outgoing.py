"""The policy of HTTP requests to user-supplied addresses: an address is checked on connect, after parsing and DNS.

`sessions` has the requests of signers and webhooks, `node_http` those of nodes.
"""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from django.conf import settings

from relayer_service.net import addresses

# Less than the 5 seconds after which Node.js servers close idle connections.
KEEP_ALIVE_SECONDS = 4
HEADERS = {"Content-Type": "application/json", "User-Agent": "Relayer-Management-Service"}
# A compressed response could be far larger than its size on the wire.
UNCOMPRESSED_HEADERS = {"Accept-Encoding": "identity", **HEADERS}


class ForbiddenAddress(OSError):
    """The address or port is not allowed."""


@dataclass(frozen=True)
class Answer:
    """An HTTP response; headers and body may be secret and are not in its representation."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Return the delay of a Retry-After header in seconds or as a date, or None if it is invalid."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        # A timedelta cannot hold arbitrarily many digits; ten are centuries.
        return timedelta(seconds=int(value[:10]))
    try:
        moment = parsedate_to_datetime(value)
        # A date without a zone is UTC.
        return max(moment.replace(tzinfo=moment.tzinfo or UTC) - now, timedelta(0))
    except (TypeError, ValueError, OverflowError):
        return None


def is_allowed_server(host: str, port: int = 0) -> bool:
    """Return whether nodes and signer servers may have this address."""
    return addresses.is_allowed(host, settings.NODE_AND_SIGNER_PRIVATE_NETWORKS)


def is_forbidden(error: BaseException | None) -> bool:
    """Return whether an error comes from an address or a port that is not allowed."""
    while error is not None:
        if isinstance(error, ForbiddenAddress):
            return True
        error = error.__cause__ or error.__context__
    return False


def guarded_socket(may_connect: Callable[[str, int], bool], address_info: Any) -> socket.socket:
    """Return a socket for the address and port that are about to be connected to, if they are allowed."""
    family, kind, protocol, _, address = address_info
    if not may_connect(address[0], address[1]):
        raise ForbiddenAddress("forbidden address or port")
    return socket.socket(family, kind, protocol)
