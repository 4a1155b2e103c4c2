"""One attempt to broadcast at one node: in the order of the nonces, with a reply for each transaction."""

import logging
import time
from collections.abc import Callable, Container, Sequence
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, NamedTuple

import orjson
from eth_utils.crypto import keccak

from chain.broadcast.send_outcomes import Broadcast, NodeReply, failed, judge_error, judge_result
from chain.broadcast.send_texts import Outcome
from chain.nodes import attempts
from chain.nodes.answers import BatchRefused, Fault, rate_limited, refuses_batches
from chain.nodes.attempts import Call
from chain.nodes.observers import note_call
from relayer_service.net.outgoing import Answer
from relayer_service.observability import tracing

logger = logging.getLogger(__name__)


class SignedTransaction(NamedTuple):
    """The bytes to broadcast, and the trace that a request with them alone continues, if any."""

    raw: bytes
    traceparent: str = ""


Batch = Sequence[SignedTransaction]
# Called before each request: which bytes may leave now. Without it, all of them.
Allowed = Callable[[], Container[bytes]] | None
# Of a transaction that was not sent, as it may not leave any more.
WITHHELD = NodeReply(Broadcast(Outcome.UNKNOWN))
PREDECESSOR_IS_THERE = {Outcome.ACCEPTED, Outcome.KNOWN, Outcome.NONCE_TOO_LOW}
OUT_OF_TIME = Fault("the deadline has passed", is_client_error=True)


def attempt(
    url: str, batch: Batch, chain_id: int | None, seconds: float, *, one_at_a_time: bool, allowed: Allowed = None
) -> list[NodeReply]:
    """Return the reply of a node for each transaction; nothing is sent to a node on another chain."""
    deadline = time.monotonic() + seconds
    try:
        attempts.check_chain(url, chain_id, _until(deadline))
    except Fault as fault:
        return [failed(fault)] * len(batch)
    started = time.monotonic()
    replies = _send(url, batch, deadline, one_at_a_time, allowed)
    faults = [reply.fault for reply in replies if reply.fault]
    if any(reply is not WITHHELD for reply in replies):
        note_call(url, time.monotonic() - started, faults[0] if faults else None)
    if faults:
        attempts.distrust(url, chain_id)
    return replies


def _send(url: str, transactions: Batch, deadline: float, one_at_a_time: bool, allowed: Allowed) -> list[NodeReply]:
    if not one_at_a_time and len(transactions) <= attempts.batch_limit(url, len(transactions)):
        try:
            replies = _post(url, transactions, deadline, allowed)
            return _resend_overtaken(url, transactions, replies, deadline, allowed)
        except BatchRefused:
            attempts.note_batch_refused(url, len(transactions))
    return _send_in_sequence(url, transactions, deadline, allowed)


def _resend_overtaken(
    url: str, transactions: Batch, replies: list[NodeReply], deadline: float, allowed: Allowed
) -> list[NodeReply]:
    """Send a transaction again if the node checked it before it had its predecessor: some run a batch in parallel."""
    found = list(replies)
    for number in range(1, len(transactions)):
        is_overtaken = (
            found[number].outcome is Outcome.NONCE_TOO_HIGH and found[number - 1].outcome in PREDECESSOR_IS_THERE
        )
        if is_overtaken and time.monotonic() < deadline:
            found[number : number + 1] = _post(url, [transactions[number]], deadline, allowed)
    return found


def _send_in_sequence(url: str, transactions: Batch, deadline: float, allowed: Allowed) -> list[NodeReply]:
    """Send one after the other, each after the answer to the one before; stop at a fault of the node."""
    replies: list[NodeReply] = []
    for transaction in transactions:
        if time.monotonic() >= deadline:
            return replies + [failed(OUT_OF_TIME)] * (len(transactions) - len(replies))
        replies += _post(url, [transaction], deadline, allowed)
        if fault := replies[-1].fault:
            return replies + [failed(fault)] * (len(transactions) - len(replies))
    return replies


def _post(url: str, transactions: Batch, deadline: float, allowed: Allowed = None) -> list[NodeReply]:
    if allowed is not None:
        leaving = allowed()
        chosen = [each for each in transactions if each.raw in leaving]
        found = iter(_post(url, chosen, deadline) if chosen else ())
        return [next(found) if each.raw in leaving else WITHHELD for each in transactions]
    calls = [Call("eth_sendRawTransaction", [f"0x{each.raw.hex()}"]) for each in transactions]
    try:
        # A batch belongs to no one trace.
        with tracing.following(transactions[0].traceparent if len(transactions) == 1 else ""):
            answer, ids = attempts.post(url, calls, time.monotonic() + _until(deadline))
        return _read(answer, ids, [f"0x{keccak(each.raw).hex()}" for each in transactions])
    except BatchRefused:
        raise
    except Fault as fault:
        return [failed(fault)] * len(transactions)
    except (HTTPException, OSError, ValueError) as error:
        return [failed(Fault(attempts.describe(error)))] * len(transactions)
    except Exception:
        # A bug here must not lose the outcome of what may have been sent.
        logger.exception("The response of a node could not be read")
        return [failed(Fault("returned an unreadable response"))] * len(transactions)


def _until(deadline: float) -> float:
    return max(0.0, min(attempts.ATTEMPT_SECONDS, deadline - time.monotonic()))


def _read(answer: Answer, ids: Sequence[int], hashes: Sequence[str]) -> list[NodeReply]:
    retry_after = answer.headers.get("Retry-After", "").strip()
    try:
        body = orjson.loads(answer.body)
    except ValueError:
        body = None
    if (
        len(ids) > 1
        and answer.status != HTTPStatus.TOO_MANY_REQUESTS
        and refuses_batches(answer.status, retry_after, body)
    ):
        raise BatchRefused
    missing = _status_fault(answer.status, retry_after) or Fault("returned an invalid response")
    entries: dict[int, Any] = {}
    for entry in body if isinstance(body, list) else [body]:
        # `type`, not `isinstance`: a bool is an int.
        if isinstance(entry, dict) and type(entry.get("id")) is int:
            # Two different answers to one call are none.
            entries[entry["id"]] = entry if entries.get(entry["id"], entry) == entry else None
    return [
        _judge(answer.status, retry_after, entries.get(number), expected, missing)
        for number, expected in zip(ids, hashes, strict=True)
    ]


def _judge(status: int, retry_after: str, entry: Any, expected_hash: str, missing: Fault) -> NodeReply:
    if entry is None or ("result" not in entry and entry.get("error") is None):
        return failed(missing)
    fault = _status_fault(status, retry_after)
    if entry.get("error") is None:
        return failed(fault) if fault else judge_result(entry["result"], expected_hash)
    reply = judge_error(entry["error"], expected_hash, retry_after)
    # The words count first: nodes report errors of transactions with any status.
    is_unclear = reply.outcome is Outcome.UNKNOWN and reply.fault is None
    return failed(fault) if fault and is_unclear and status != HTTPStatus.BAD_REQUEST else reply


def _status_fault(status: int, retry_after: str) -> Fault | None:
    if status == HTTPStatus.OK:
        return None
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return rate_limited(retry_after)
    return Fault(f"returned HTTP {status}", is_client_error=status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
