"""Sessions for user-supplied addresses: without redirects or proxies of the environment, which could lead anywhere.

Signers share one session and event loop; the sender of webhooks has its own.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import aiohttp

from relayer_service.background.loops import LoopThread
from relayer_service.net.bounded import AnswerTooLarge
from relayer_service.net.outgoing import KEEP_ALIVE_SECONDS, Answer, guarded_socket, is_allowed_server

loop = LoopThread("outgoing")


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
    return open_session(is_allowed_server, keepalive_seconds=KEEP_ALIVE_SECONDS)
