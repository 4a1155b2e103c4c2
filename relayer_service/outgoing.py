"""HTTP sessions for requests to addresses that others choose: each is looked at when it is connected to."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp


class ForbiddenAddress(OSError):
    """What is to be connected to is an address or a port that nothing is sent to."""


def guarded_socket(may_connect: Callable[[str, int], bool], address_info: Any) -> socket.socket:
    """Make a socket for the address and port that are about to be connected to, if they may be.

    This is the last step before the connection, whatever form the address had in the URL and whatever the name
    server said before.
    """
    family, kind, protocol, _, address = address_info
    if not may_connect(address[0], address[1]):
        raise ForbiddenAddress("forbidden address or port")
    return socket.socket(family, kind, protocol)


def open_session(
    may_connect: Callable[[str, int], bool], *, keepalive_seconds: float, **options: Any
) -> aiohttp.ClientSession:
    """Open a session that connects where it may alone, follows no proxy of the environment and keeps no cookies.

    The limits of time are the callers': one for connection and answer together.
    """
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=ssl.create_default_context(),
        socket_factory=partial(guarded_socket, may_connect),
        keepalive_timeout=keepalive_seconds,
    )
    # The proxies of the environment are not used: they would connect to any address.
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        **options,
    )
