"""Parsing the response of a node: values, errors of the chain, or a fault of the node."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from django.utils import timezone

from relayer_service.net import outgoing

# Nodes report rate limits this way even with status 200.
RATE_LIMIT_CODES = {429, -32005, -32029, -32097}
RATE_LIMIT_WORDS = ("rate limit", "too many requests", "request limit")
# A failure of the node, unless the error has data of the chain.
INTERNAL_ERROR = -32603
REVERTED = 3
# Messages of nodes that lag behind or have pruned the state.
BEHIND_WORDS = ("header not found", "missing trie node", "block not found", "state not available")
# Statuses about the credentials or the path, not about the batch.
ACCESS_DENIED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
NO_CHAIN_ID = "did not report its chain ID"
RATE_LIMIT_PAUSE_SECONDS = 5
MAX_PAUSE_SECONDS = 300
WRONG_CHAIN_PAUSE_SECONDS = 600
# At most 256 bits.
QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")


@dataclass(frozen=True)
class ChainError:
    """An error of the chain, such as a revert: a valid answer, not a fault of the node."""

    code: int
    message: str
    data: Any = None

    @property
    def is_revert(self) -> bool:
        return self.code == REVERTED or "revert" in self.message.lower()


class Fault(Exception):
    """Why a node returned no usable answer; the message contains no URL. Another node may succeed."""

    def __init__(
        self,
        message: str,
        *,
        pause_seconds: float = 0,
        wrong_chain: bool = False,
        is_client_error: bool = False,
        head_time: int | None = None,
    ) -> None:
        super().__init__(message)
        # If its head block is too old: the time of that block.
        self.head_time = head_time
        self.pause_seconds = pause_seconds
        self.wrong_chain = wrong_chain
        # Caused by the request: it does not count as a failure of the node.
        self.is_client_error = is_client_error


class BatchRefused(Exception):
    """The node rejected a batch for its size."""


def read_answers(
    status: int, retry_after: str, text: bytes, ids: Sequence[int], optional: Collection[int] = ()
) -> list[Any]:
    """Return the answers to the calls with these ids, in order; any error of an optional call is an answer."""
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise rate_limited(retry_after)
    if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE and len(ids) == 1:
        raise Fault("rejected the request as too large", is_client_error=True)
    try:
        body = orjson.loads(text)
    except ValueError:
        body = None
    if len(ids) > 1 and refuses_batches(status, retry_after, body):
        raise BatchRefused
    entries = body if isinstance(body, list) else [body]
    answers = {entry["id"]: entry for entry in entries if _is_answer(entry)}
    if len(entries) != len(ids) or set(answers) != set(ids):
        raise Fault("returned an invalid response" if status == HTTPStatus.OK else f"returned HTTP {status}")
    return [_read_answer(status, retry_after, answers[number], number in optional) for number in ids]


def refuses_batches(status: int, retry_after: str, body: Any) -> bool:
    """Return whether the response to a batch rejects the batch itself; raise a fault for a rate limit."""
    if status in ACCESS_DENIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    if isinstance(body, list):
        return _is_too_large(body)
    error = body.get("error") if isinstance(body, dict) else None
    if isinstance(error, dict) and _is_rate_limit(error):
        raise rate_limited(retry_after)
    return isinstance(error, dict) or status >= HTTPStatus.BAD_REQUEST


def _is_too_large(entries: list[Any]) -> bool:
    """Return whether all errors are about the batch: Geth returns one, other nodes one per call."""
    errors = [entry.get("error") if isinstance(entry, dict) else None for entry in entries]
    words = [str(error.get("message", "")).lower() if isinstance(error, dict) else "" for error in errors]
    return bool(words) and all("batch" in text for text in words)


def _is_answer(entry: Any) -> bool:
    # `type`, not `isinstance`: a bool is an int.
    if not isinstance(entry, dict) or type(entry.get("id")) is not int:
        return False
    error = entry.get("error")
    if error is None:
        return "result" in entry
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)


def _read_answer(status: int, retry_after: str, entry: dict[str, Any], is_optional: bool) -> Any:
    error = entry.get("error")
    if error is None:
        if status != HTTPStatus.OK:
            raise Fault(f"returned HTTP {status}")
        return entry["result"]
    answer, words = ChainError(error["code"], error["message"], error.get("data")), error["message"].lower()
    # First, as a contract chooses its revert messages, which may contain the words below.
    if answer.is_revert or (is_optional and status == HTTPStatus.OK):
        return answer
    if _is_rate_limit(error):
        raise rate_limited(retry_after)
    if status in ACCESS_DENIED or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Fault(f"returned HTTP {status}")
    if answer.code == INTERNAL_ERROR and answer.data is None:
        raise Fault("returned an internal error")
    if any(behind in words for behind in BEHIND_WORDS):
        raise Fault("does not have the latest state")
    return answer


def _is_rate_limit(error: dict[str, Any]) -> bool:
    code, words = error.get("code"), str(error.get("message", "")).lower()
    # The code may be of any type, even an unhashable one.
    return (isinstance(code, int) and code in RATE_LIMIT_CODES) or any(limit in words for limit in RATE_LIMIT_WORDS)


def rate_limited(retry_after: str) -> Fault:
    wait = outgoing.parse_retry_after(retry_after, timezone.now())
    seconds = RATE_LIMIT_PAUSE_SECONDS if wait is None else wait.total_seconds()
    return Fault("rate limit exceeded", pause_seconds=min(max(1, seconds), MAX_PAUSE_SECONDS))


def check_chain_id(answer: Any, expected: int) -> None:
    found = quantity(answer)
    if found is None:
        raise Fault(NO_CHAIN_ID)
    if found != expected:
        message = f"on chain {found} instead of {expected}"
        raise Fault(message, pause_seconds=WRONG_CHAIN_PAUSE_SECONDS, wrong_chain=True)


def quantity(answer: Any) -> int | None:
    """Return the number of a JSON-RPC quantity, or None if it is not one."""
    return int(answer, 16) if isinstance(answer, str) and QUANTITY.fullmatch(answer) else None


def member_quantity(answer: Any, name: str) -> int | None:
    return quantity(answer.get(name)) if isinstance(answer, dict) else None
