"""The memory that large bodies share while they come."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pytest_django import Settings

from relayer_service.server import request_bodies
from relayer_service.server.request_bodies import LargeBodies


async def whole_body() -> AsyncIterator[bytes]:
    yield b"12345678"


async def half_body() -> AsyncIterator[bytes]:
    yield b"12345678"
    await asyncio.Event().wait()


async def read_with_deadline(bodies: LargeBodies, protocol: Any, seconds: float | None) -> bytes:
    async with asyncio.timeout(seconds) as deadline:
        body, _ = await bodies.read(protocol, deadline)
    return body


def test_a_body_that_just_expired_fails_no_other(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MAX_REQUEST_BYTES = 10
    monkeypatch.setattr(request_bodies, "MAX_LARGE_BODIES", 1)

    async def read_both() -> tuple[bytes, int]:
        bodies = LargeBodies()
        expired = asyncio.create_task(read_with_deadline(bodies, half_body(), 0))
        # First it begins to read, then its deadline passes; it ends in the turn after this one.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        body = await read_with_deadline(bodies, whole_body(), None)
        with pytest.raises(TimeoutError):
            await expired
        return body, bodies.total

    assert asyncio.run(read_both()) == (b"12345678", 0)
