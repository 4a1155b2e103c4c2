"""One attempt at one node: a JSON-RPC batch in one HTTP request, and the check of its answer."""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from typing import Any

import orjson
from django.conf import settings

from relayer_service.net import blocking, outgoing
from relayer_service.ops.pools import Pool
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
        return _attempt(url, calls, chain_id, time.monotonic() + seconds)
    except Fault:
        _trusted.remove((url, chain_id))
        raise


def _attempt(url: str, calls: Sequence[Call], chain_id: int | None, deadline: float) -> list[Any]:
    ask_chain = chain_id is not None and not _trusted.get((url, chain_id))
    asked = [Call("eth_chainId"), *calls] if ask_chain else list(calls)
    try:
        answers = _ask(url, asked, deadline)
    except TimeoutError:
        raise Fault("it did not answer in time") from None
    except (HTTPException, OSError, ValueError) as error:
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


def _ask(url: str, calls: list[Call], deadline: float) -> list[Any]:
    if len(calls) == 1 or not _single_calls.get(url):
        try:
            return _post(url, calls, deadline)
        except BatchRefused:
            pass
    answers = _ask_one_by_one(url, calls, deadline)
    _single_calls.set(url, True, SINGLE_CALLS_SECONDS)
    return answers


def _ask_one_by_one(url: str, calls: list[Call], deadline: float) -> list[Any]:
    pool = Pool("single-calls", min(len(calls), MAX_SINGLE_CALLS_IN_FLIGHT))
    try:
        tasks = [pool.submit(_post, url, [call], deadline) for call in calls]
        done, waiting = wait(tasks, blocking.time_left(deadline), return_when=FIRST_EXCEPTION)
        for task in done:
            # Raises what has ended the others.
            task.result()
        if waiting:
            raise TimeoutError
        return [answer for task in tasks for answer in task.result()]
    finally:
        # Those that still wait for the node end at the deadline, without anyone who waits for them.
        pool.shutdown(wait=False, cancel_futures=True)


def _post(url: str, calls: list[Call], deadline: float) -> list[Any]:
    ids = [next(_ids) for _ in calls]
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": call.method, "params": list(call.params)}
        for number, call in zip(ids, calls, strict=True)
    ]
    body = orjson.dumps(requests if len(requests) > 1 else requests[0])
    try:
        answer = blocking.post(url, body, deadline=deadline, max_bytes=settings.NODE_MAX_ANSWER_BYTES)
    except outgoing.AnswerTooLarge:
        raise Fault("its answer is too large") from None
    return read_answers(answer.status, answer.headers.get("Retry-After", "").strip(), answer.body, ids)


def _in_words(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its TLS certificate is not valid"
    if isinstance(error, ssl.SSLError):
        return "TLS could not be agreed on with it"
    if isinstance(error, outgoing.ForbiddenAddress):
        return "its address is not allowed"
    if isinstance(error, blocking.CannotConnect):
        return "it cannot be connected to"
    if isinstance(error, HTTPException) and not isinstance(error, IncompleteRead):
        return "its answer is not HTTP"
    return "the connection broke"
