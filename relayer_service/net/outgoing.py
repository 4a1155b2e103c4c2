"""HTTP requests to user-supplied addresses, with one policy and limits for all.

An address is checked when it is connected to, whatever form it had in the URL and whatever the name server said
before. No redirect is followed and no proxy of the environment is used: either could lead anywhere. Signers share one
session and its event loop, webhooks have their own in their sender, and nodes are asked by `node_http`.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

import aiohttp
from django.conf import settings

from relayer_service.background.loops import LoopThread
from relayer_service.net import addresses
from relayer_service.net.bounded import AnswerTooLarge

# Less than the 5 seconds after which servers on Node.js hang up.
KEEP_ALIVE_SECONDS = 4
HEADERS = {"Content-Type": "application/json", "User-Agent": "Relayer-Management-Service"}
# A compressed response could be far larger than its size on the wire.
UNCOMPRESSED_HEADERS = {"Accept-Encoding": "identity", **HEADERS}

loop = LoopThread("outgoing")


class ForbiddenAddress(OSError):
    """The address or port is not allowed."""


@dataclass(frozen=True)
class Answer:
    """An HTTP response; its content may be secret and is not in its representation."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    seconds: float,
    max_bytes: int,
    proxy: str | None = None,
) -> Answer:
    """Make one request from a thread; raise TimeoutError if connection and response together take longer."""

    async def fetch() -> Answer:
        async with (
            asyncio.timeout(seconds),
            loop.own(_session).request(
                method, url, headers=headers, data=body, proxy=proxy, allow_redirects=False
            ) as response,
        ):
            text = bytearray()
            async for part in response.content.iter_any():
                text += part
                if len(text) > max_bytes:
                    raise AnswerTooLarge
            return Answer(response.status, response.headers, bytes(text))

    return loop.run(fetch())


def parse_retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Return the seconds of a Retry-After header, which may be a date; None if it is neither."""
    if not value:
        return None
    if value.isascii() and value.isdigit():
        # Ten digits are centuries; a timedelta cannot hold arbitrarily many.
        return timedelta(seconds=int(value[:10]))
    try:
        moment = parsedate_to_datetime(value)
        # A date without a zone is UTC.
        return max(moment.replace(tzinfo=moment.tzinfo or UTC) - now, timedelta(0))
    except (TypeError, ValueError, OverflowError):
        return None


def may_be_inside(host: str, port: int = 0) -> bool:
    """Return whether a node or the server of a signer may be at an address; a private network can be allowed."""
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


def open_session(
    may_connect: Callable[[str, int], bool], *, keepalive_seconds: float, **options: Any
) -> aiohttp.ClientSession:
    """Return a session that connects to allowed addresses only, without proxies from the environment or cookies."""
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=ssl.create_default_context(),
        socket_factory=partial(guarded_socket, may_connect),
        keepalive_timeout=keepalive_seconds,
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        **options,
    )


def _session() -> aiohttp.ClientSession:
    return open_session(may_be_inside, keepalive_seconds=KEEP_ALIVE_SECONDS)
