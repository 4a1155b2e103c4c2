"""What an answer of the service may look like, and when one that is not wanted is excused."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

SUCCESS = {"data", "error", "metadata", "success"}
FAILURE = {"data", "message", "success"}
RPC = {"jsonrpc", "id"}
INTERNAL_ERROR = -32603
# What was in flight or pooled when the connections to the database were cut may fail for so long.
CUT_SECONDS = 3.0
# A server that crashed recovers first.
CRASH_SECONDS = 6.0
# A web process that is killed takes its requests with it: their clients see that at once.
KILL_SECONDS = 1.0

PAGE, RESOURCE, CALL, REFUSAL, HTML, REDIRECT = "page", "resource", "call", "refusal", "html", "redirect"
NO_ANSWER, UNAVAILABLE, OTHER = "no answer", "unavailable", "other"


@dataclass(frozen=True)
class Answer:
    """One request as its caller saw it; `trouble` is empty where it was answered as it should."""

    kind: str
    status: str
    began: float
    ended: float
    trouble: str = ""
    details: str = ""


@dataclass(frozen=True)
class Disturbance:
    name: str
    at: float


WEB_KILLED, WORKER_KILLED, CUT = "web process killed", "worker killed", "database connections cut"
REDIS_STOPPED, REDIS_STARTED = "Redis stopped", "Redis started"
CRASHED, REORG, NODE_LIES = "database server crashed", "reorg", "the node begins to lie"
# For how long each explains a 5xx.
UNAVAILABLE_SECONDS = {CUT: CUT_SECONDS, CRASHED: CRASH_SECONDS}


def is_excused(answer: Answer, disturbances: Iterable[Disturbance], patience: int = 1) -> bool:
    """Return whether what was done to the service explains that a request got no answer, or a 5xx.

    The times are multiplied by the patience that a busy machine needs.
    """
    for disturbance in disturbances:
        since = answer.ended - disturbance.at
        if answer.trouble == NO_ANSWER and disturbance.name == WEB_KILLED and 0 <= since <= KILL_SECONDS * patience:
            return True
        if answer.trouble == UNAVAILABLE and disturbance.name in UNAVAILABLE_SECONDS and since >= 0:
            excused_until = disturbance.at + UNAVAILABLE_SECONDS[disturbance.name] * patience
            if answer.began <= excused_until:
                return True
    return False


def judge(shape: str, expected: set[int], status: int, content_type: str, body: bytes) -> tuple[str, str]:
    """Return the status as it is counted, and the trouble with an answer: none, UNAVAILABLE or OTHER."""
    label, trouble = str(status), ""
    if shape in {HTML, REDIRECT}:
        if status >= 500:
            trouble = UNAVAILABLE
        elif status not in expected or (shape == HTML and not body.rstrip().endswith(b"</html>")):
            trouble = OTHER
        return label, trouble
    content = read_json(content_type, body)
    if not has_shape(shape, status, content):
        return f"{label} malformed", OTHER
    if shape == CALL and "error" in content:
        code = content["error"]["code"]
        return f"{label} ({code})", UNAVAILABLE if code == INTERNAL_ERROR else OTHER
    if status not in expected:
        trouble = UNAVAILABLE if status >= 500 else OTHER
    return label, trouble


def read_json(content_type: str, body: bytes) -> Any:
    if content_type != "application/json":
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def has_shape(shape: str, status: int, content: Any) -> bool:
    """Return whether a body is the contract's: an envelope, or for a call that was understood a JSON-RPC response."""
    if not isinstance(content, dict):
        return False
    names = set(content)
    if status >= 400:
        return names - {"metadata"} == FAILURE and content["success"] is False and content["data"] is None
    if shape == CALL:
        error = content.get("error")
        return names == RPC | {"result"} or (names == RPC | {"error"} and isinstance(error, dict) and "code" in error)
    wanted = SUCCESS | {"pagination"} if shape == PAGE else SUCCESS
    return names == wanted and content["success"] is True and content["error"] == ""
