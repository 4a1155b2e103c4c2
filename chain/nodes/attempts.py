"""One attempt at one node: a JSON-RPC batch in one HTTP request, or in several if the node limits batches."""

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

from chain.nodes.answers import (
    BatchRefused,
    ChainError,
    Fault,
    check_chain_id,
    member_quantity,
    quantity,
    read_answers,
)
from chain.nodes.observers import Head, note_call
from relayer_service.background.pools import Pool
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.net import node_http, outgoing
from relayer_service.net.bounded import AnswerTooLarge, time_left

logger = logging.getLogger(__name__)

# The timeout of one attempt at one node, and of a call with all its attempts.
ATTEMPT_SECONDS = 5
DEADLINE_SECONDS = 10
# How long a checked chain ID is trusted: another node may be behind the URL later.
TRUST_SECONDS = 60
# A rejected batch is split into parts of a quarter of its size, down to single calls; the limit expires.
BATCH_DIVISOR = 4
BATCH_LIMIT_SECONDS = 600
MAX_REQUESTS_IN_FLIGHT = 8
MAX_ANSWER_BYTES = 16 * 1024 * 1024

# The first match counts: some are subclasses of a later one.
FAULTS: tuple[tuple[type[Exception], str], ...] = (
    (TimeoutError, "did not respond in time"),
    (socket.gaierror, "the host name cannot be resolved"),
    (ssl.SSLCertVerificationError, "invalid TLS certificate"),
    (ssl.SSLError, "the TLS handshake failed"),
    (outgoing.ForbiddenAddress, "the address is not allowed"),
    (node_http.CannotConnect, "connection failed"),
    (IncompleteRead, "the connection was interrupted"),
    (HTTPException, "did not respond with HTTP"),
)

_ids = itertools.count(1)
# Nodes whose chain ID was checked, and the largest batches of nodes that rejected one.
_trusted: TTLCache[tuple[str, int | None], bool] = TTLCache()
_batch_limits: TTLCache[str, int] = TTLCache()


@dataclass(frozen=True)
class Call:
    method: str
    params: Sequence[Any] = ()
    # Whether it may fail without failing the other calls.
    is_optional: bool = False


def attempt(url: str, calls: Sequence[Call], chain_id: int | None, seconds: float) -> list[Any]:
    """Return the answers of a node in the order of the calls: values, or errors of the chain."""
    started = time.monotonic()
    try:
        answers = _attempt(url, calls, chain_id, started + seconds)
    except Fault as fault:
        note_call(url, time.monotonic() - started, fault)
        distrust(url, chain_id)
        raise
    note_call(url, time.monotonic() - started, None, _head(calls, answers))
    return answers


def _head(calls: Sequence[Call], answers: Sequence[Any]) -> Head | None:
    """Return the latest block, if it was asked for."""
    for call, answer in zip(calls, answers, strict=True):
        is_block = call.method == "eth_getBlockByNumber" and call.params[0] == "latest"
        if is_block or call.method == "eth_blockNumber":
            number = member_quantity(answer, "number") if is_block else quantity(answer)
            return None if number is None else Head(number, member_quantity(answer, "timestamp"))
    return None


def check_chain(url: str, chain_id: int | None, seconds: float) -> None:
    """Raise a fault unless the node is on this chain; a node that was checked recently is not called."""
    if chain_id is not None and not _trusted.get((url, chain_id)):
        attempt(url, [], chain_id, seconds)


def distrust(url: str, chain_id: int | None) -> None:
    """Check the chain ID of a node before its next answer is used."""
    _trusted.remove((url, chain_id))


def refuses_batches(url: str) -> bool:
    return _batch_limits.get(url) == 1


def batch_limit(url: str, size: int) -> int:
    """Return how many of these calls a node accepts in a batch, as far as known."""
    return min(_batch_limits.get(url) or size, size)


def note_batch_refused(url: str, size: int) -> int:
    """Remember that a node rejected a batch of this size, and return the size to try next."""
    smaller = max(1, size // BATCH_DIVISOR)
    _batch_limits.set(url, smaller, BATCH_LIMIT_SECONDS)
    return smaller


def _attempt(url: str, calls: Sequence[Call], chain_id: int | None, deadline: float) -> list[Any]:
    checked_chain = None if _trusted.get((url, chain_id)) else chain_id
    sent = list(calls) if checked_chain is None else [Call("eth_chainId"), *calls]
    try:
        answers = _send(url, sent, deadline)
    except (HTTPException, OSError, ValueError) as error:
        raise Fault(describe(error)) from None
    except Fault:
        raise
    except Exception:
        # A bug here must not prevent the next node from being called.
        logger.exception("The response of a node could not be read")
        raise Fault("returned an unreadable response") from None
    if checked_chain is not None:
        check_chain_id(answers.pop(0), checked_chain)
        _trusted.set((url, chain_id), True, TRUST_SECONDS)
    return answers


def _send(url: str, calls: list[Call], deadline: float) -> list[Any]:
    size = batch_limit(url, len(calls))
    while True:
        try:
            return _send_parts(url, calls, size, deadline) if size < len(calls) else _post(url, calls, deadline)
        except BatchRefused:
            size = note_batch_refused(url, size)


def _send_parts(url: str, calls: list[Call], size: int, deadline: float) -> list[Any]:
    """Return the answers to batches of this size, sent concurrently."""
    parts = [calls[start : start + size] for start in range(0, len(calls), size)]
    pool = Pool("single-calls", min(len(parts), MAX_REQUESTS_IN_FLIGHT))
    started = time.monotonic()
    try:
        tasks = [pool.submit(_post, url, part, deadline) for part in parts]
        optional = {task for task, part in zip(tasks, parts, strict=True) if all(call.is_optional for call in part)}
        required = {*tasks} - optional
        done, waiting = wait(required, time_left(deadline), return_when=FIRST_EXCEPTION)
        for task in done:
            # Raises the first exception.
            task.result()
        if waiting:
            raise TimeoutError
        # Beside others, optional calls get as long again as those took.
        patience = time.monotonic() - started if required else ATTEMPT_SECONDS
        wait(optional, min(patience, time_left(deadline)))
        errors = [task.exception() if task.done() else TimeoutError() for task in tasks]
        failed = [error for error in errors if error]
        if refused := next((error for error in failed if isinstance(error, BatchRefused)), None):
            raise refused
        if len(failed) == len(tasks):
            raise failed[0]
        return [
            answer
            for task, part, error in zip(tasks, parts, errors, strict=True)
            for answer in ([ChainError(0, "no answer")] * len(part) if error else task.result())
        ]
    finally:
        # Pending requests end at their deadline.
        pool.shutdown(wait=False, cancel_futures=True)


def _post(url: str, calls: list[Call], deadline: float) -> list[Any]:
    answer, ids = post(url, calls, deadline)
    optional = {number for number, call in zip(ids, calls, strict=True) if call.is_optional}
    return read_answers(answer.status, answer.headers.get("Retry-After", "").strip(), answer.body, ids, optional)


def post(url: str, calls: Sequence[Call], deadline: float) -> tuple[outgoing.Answer, list[int]]:
    """Return the response to one HTTP request with these calls, and their ids."""
    ids = [next(_ids) for _ in calls]
    requests = [
        {"jsonrpc": "2.0", "id": number, "method": call.method, "params": list(call.params)}
        for number, call in zip(ids, calls, strict=True)
    ]
    body = orjson.dumps(requests if len(requests) > 1 else requests[0])
    try:
        return node_http.post(url, body, deadline=deadline, max_bytes=MAX_ANSWER_BYTES), ids
    except AnswerTooLarge:
        raise Fault("returned a response that is too large") from None


def describe(error: Exception) -> str:
    """Return why a request failed, without the URL."""
    return next((text for classes, text in FAULTS if isinstance(error, classes)), "the connection was interrupted")
