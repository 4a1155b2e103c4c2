"""One attempt at one node: a JSON-RPC batch in one HTTP request, and the check of its answer."""

import itertools
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass
from http.client import HTTPException, IncompleteRead
from typing import Any

import orjson

from chain.answers import BatchRefused, ChainError, Fault, check_chain_id, read_answers
from relayer_service.background.pools import Pool
from relayer_service.net import node_http, outgoing
from relayer_service.net.bounded import AnswerTooLarge, time_left
from relayer_service.storage.ttl_cache import TTLCache

logger = logging.getLogger(__name__)

# How long the chain id of a URL is trusted, unless it fails: another node may be behind it by then.
TRUST_SECONDS = 60
# A node that refuses a batch gets parts of it, a quarter as large, down to single calls; after this time it is offered
# a whole one again.
BATCH_DIVISOR = 4
BATCH_LIMIT_SECONDS = 600
MAX_REQUESTS_IN_FLIGHT = 8
# Far more than the answers to a whole batch need.
MAX_ANSWER_BYTES = 16 * 1024 * 1024

_ids = itertools.count(1)
# Nodes whose chain id was checked, and the largest batches of nodes that have refused one.
_trusted: TTLCache[tuple[str, int | None], bool] = TTLCache()
_batch_limits: TTLCache[str, int] = TTLCache()


@dataclass(frozen=True)
class Call:
    method: str
    params: Sequence[Any] = ()
    # Whether what it fails with is no fault of the node: the others are answered all the same.
    is_optional: bool = False


def attempt(url: str, calls: Sequence[Call], chain_id: int | None, seconds: float) -> list[Any]:
    """Return the answers of one node in the order of the calls: values, or errors of the chain."""
    try:
        return _attempt(url, calls, chain_id, time.monotonic() + seconds)
    except Fault:
        _trusted.remove((url, chain_id))
        raise


def refuses_batches(url: str) -> bool:
    """Return whether a node has refused batches of late, and is asked one call at a time."""
    return _batch_limits.get(url) == 1


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
    size = min(_batch_limits.get(url) or len(calls), len(calls))
    while True:
        try:
            return _in_parts(url, calls, size, deadline) if size < len(calls) else _post(url, calls, deadline)
        except BatchRefused:
            size = max(1, size // BATCH_DIVISOR)
            _batch_limits.set(url, size, BATCH_LIMIT_SECONDS)


def _in_parts(url: str, calls: list[Call], size: int, deadline: float) -> list[Any]:
    """Return the answers to batches of this size, a few at once."""
    parts = [calls[start : start + size] for start in range(0, len(calls), size)]
    pool = Pool("single-calls", min(len(parts), MAX_REQUESTS_IN_FLIGHT))
    started = time.monotonic()
    try:
        tasks = [pool.submit(_post, url, part, deadline) for part in parts]
        optional = {task for task, part in zip(tasks, parts, strict=True) if all(call.is_optional for call in part)}
        done, waiting = wait({*tasks} - optional, time_left(deadline), return_when=FIRST_EXCEPTION)
        for task in done:
            # Raises what has ended the others.
            task.result()
        if waiting:
            raise TimeoutError
        # What is optional gets as long again as the others took.
        wait(optional, min(time.monotonic() - started, time_left(deadline)))
        return [
            answer
            for task, part in zip(tasks, parts, strict=True)
            for answer in (_optional_answers(task, part) if task in optional else task.result())
        ]
    finally:
        # Those that still wait for the node end at the deadline, without anyone who waits for them.
        pool.shutdown(wait=False, cancel_futures=True)


def _optional_answers(task: Future[list[Any]], part: list[Call]) -> list[Any]:
    failed = not task.done() or task.exception() is not None
    return [ChainError(0, "there is no answer")] * len(part) if failed else task.result()


def _post(url: str, calls: list[Call], deadline: float) -> list[Any]:
    ids = [next(_ids) for _ in calls]
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": call.method, "params": list(call.params)}
        for number, call in zip(ids, calls, strict=True)
    ]
    body = orjson.dumps(requests if len(requests) > 1 else requests[0])
    try:
        answer = node_http.post(url, body, deadline=deadline, max_bytes=MAX_ANSWER_BYTES)
    except AnswerTooLarge:
        raise Fault("its answer is too large") from None
    optional = {number for number, call in zip(ids, calls, strict=True) if call.is_optional}
    return read_answers(answer.status, answer.headers.get("Retry-After", "").strip(), answer.body, ids, optional)


def _in_words(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its TLS certificate is not valid"
    if isinstance(error, ssl.SSLError):
        return "TLS could not be agreed on with it"
    if isinstance(error, outgoing.ForbiddenAddress):
        return "its address is not allowed"
    if isinstance(error, node_http.CannotConnect):
        return "it cannot be connected to"
    if isinstance(error, HTTPException) and not isinstance(error, IncompleteRead):
        return "its answer is not HTTP"
    return "the connection broke"
