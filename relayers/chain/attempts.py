"""One attempt at one node: a JSON-RPC batch in one HTTP request, and the check of its answer."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from django.conf import settings

from relayer_service.net import outgoing
from relayer_service.storage.ttl_cache import TTLCache
from relayers.chain.answers import BatchRefused, Fault, check_chain_id, read_answers

logger = logging.getLogger(__name__)

# How long the chain id of a URL is trusted, unless it fails: another node may be behind it by then.
TRUST_SECONDS = 60
# A node that refused a batch is offered one again after this time.
SINGLE_CALLS_SECONDS = 600
MAX_SINGLE_CALLS_IN_FLIGHT = 8

_ids = itertools.count(1)
# Nodes whose chain id was checked, and nodes that refuse batches.
_trusted: TTLCache[tuple[str, int | None], bool] = TTLCache()
_single_calls: TTLCache[str, bool] = TTLCache()


@dataclass(frozen=True)
class Call:
    method: str
    params: Sequence[Any] = ()


def attempt(url: str, calls: Sequence[Call], chain_id: int | None, seconds: float) -> list[Any]:
    """Return the answers of one node in the order of the calls: values, or errors of the chain."""
    try:
        return outgoing.loop.run(_attempt(url, calls, chain_id, seconds))
    except Fault:
        _trusted.remove((url, chain_id))
        raise


async def _attempt(url: str, calls: Sequence[Call], chain_id: int | None, seconds: float) -> list[Any]:
    ask_chain = chain_id is not None and not _trusted.get((url, chain_id))
    asked = [Call("eth_chainId"), *calls] if ask_chain else list(calls)
    try:
        async with asyncio.timeout(seconds):
            answers = await _ask(url, asked)
    except TimeoutError:
        raise Fault("it did not answer in time") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Fault(_in_words(error)) from None
    except Fault:
        raise
    except Exception:
        # A bug here must not prevent the next node from being asked.
        logger.exception("The answer of a node could not be read")
        raise Fault("its answer cannot be read") from None
    if ask_chain:
        assert chain_id is not None
        check_chain_id(answers.pop(0), chain_id)
        _trusted.set((url, chain_id), True, TRUST_SECONDS)
    return answers


async def _ask(url: str, calls: list[Call]) -> list[Any]:
    if len(calls) == 1 or not _single_calls.get(url):
        try:
            return await _post(url, calls)
        except BatchRefused:
            pass
    slots = asyncio.Semaphore(MAX_SINGLE_CALLS_IN_FLIGHT)

    async def ask_one(call: Call) -> Any:
        async with slots:
            (answer,) = await _post(url, [call])
            return answer

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_one(call)) for call in calls]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    _single_calls.set(url, True, SINGLE_CALLS_SECONDS)
    return [task.result() for task in tasks]


async def _post(url: str, calls: list[Call]) -> list[Any]:
    try:
        return await _exchange(url, calls)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
        # A server may close an idle connection in the very moment in which it is used again.
        return await _exchange(url, calls)


async def _exchange(url: str, calls: list[Call]) -> list[Any]:
    ids = [next(_ids) for _ in calls]
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": call.method, "params": list(call.params)}
        for number, call in zip(ids, calls, strict=True)
    ]
    body = orjson.dumps(requests if len(requests) > 1 else requests[0])
    try:
        answer = await outgoing.fetch(
            "POST", url, headers=outgoing.HEADERS, body=body, max_bytes=settings.NODE_MAX_ANSWER_BYTES
        )
    except outgoing.AnswerTooLarge:
        raise Fault("its answer is too large") from None
    return read_answers(answer.status, answer.headers.get("Retry-After", ""), answer.body, ids)


def _in_words(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name cannot be resolved"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its TLS certificate is not valid"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS could not be agreed on with it"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "its address is not allowed" if outgoing.is_forbidden(error) else "it cannot be connected to"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its answer is not HTTP"
    return "the connection broke"
