"""Request bodies, read on the event loop with a limit and a deadline."""

import asyncio

from django.conf import settings
from granian.rsgi import HTTPProtocol, ProtocolClosed, Scope

# How long a client may take to send a body: enough for the largest one over a slow connection.
TIMEOUT_SECONDS = 10
# Bodies are kept in memory while they arrive, even anonymous ones. Large ones together take at most the memory of this
# many of the maximum size.
LARGE_BODY_BYTES = 65_536
MAX_LARGE_BODIES = 64
SLOW_BODY_SECONDS = 1


class LargeBodies:
    """The large bodies that are arriving, oldest first, with the bytes of each that are in memory.

    Past the limit the others wait for the oldest, which is dropped if it is slow: a slow client delays no other.
    """

    def __init__(self) -> None:
        self.held: dict[asyncio.Timeout, int] = {}
        self.total = 0

    async def read(self, protocol: HTTPProtocol, deadline: asyncio.Timeout) -> tuple[bytes, int]:
        """Return a body up to some bytes past the limit, and how many empty chunks it had."""
        body, empty_chunks = bytearray(), 0
        try:
            async for chunk in protocol:
                body += chunk
                empty_chunks += not chunk
                self.held[deadline] = self.held.get(deadline, 0) + len(chunk)
                self.total += len(chunk)
                if len(body) > settings.MAX_REQUEST_BYTES:
                    break
                await self._make_room(deadline)
            return bytes(body), empty_chunks
        finally:
            self._release(deadline)

    async def _make_room(self, deadline: asyncio.Timeout) -> None:
        while self.total > MAX_LARGE_BODIES * settings.MAX_REQUEST_BYTES:
            oldest = next(iter(self.held))
            if oldest is deadline:
                return
            seconds_left = (oldest.when() or 0) - asyncio.get_running_loop().time()
            if seconds_left < TIMEOUT_SECONDS - SLOW_BODY_SECONDS:
                self._release(oldest)
                # One whose deadline has just passed ends by itself.
                if not oldest.expired():
                    oldest.reschedule(0)
            else:
                await asyncio.sleep(0.02)

    def _release(self, deadline: asyncio.Timeout) -> None:
        self.total -= self.held.pop(deadline, 0)


large_bodies = LargeBodies()


async def read_body(scope: Scope, protocol: HTTPProtocol) -> tuple[bytes, int]:
    """Return a request's body and its expected length, which is greater if the body is incomplete.

    A body longer than MAX_REQUEST_BYTES is not read, or if chunked not to its end: it is rejected by its length.
    """
    declared = scope.headers.get("content-length")
    chunked = declared is None and "transfer-encoding" in scope.headers
    length = int(declared or 0)
    if not chunked and not 0 < length <= settings.MAX_REQUEST_BYTES:
        return b"", length
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS) as deadline:
            if not chunked and length <= LARGE_BODY_BYTES:
                return await protocol(), length
            body, empty_chunks = await large_bodies.read(protocol, deadline)
    except (TimeoutError, ProtocolClosed):
        return b"", max(length, 1)
    if not chunked:
        return body, length
    if len(body) > settings.MAX_REQUEST_BYTES:
        return b"", len(body)
    # The server ends a body with one empty chunk. One that is malformed, ends early or has trailers, which are not
    # supported, has another before it.
    return body, len(body) + (empty_chunks > 1)
