"""Calls to nodes, for statistics: other packages append a listener, which receives every attempt at a node."""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from django.utils.crypto import salted_hmac

from chain.nodes.answers import Fault

# Enough to tell nodes apart, and short enough for an index of a list of keys.
KEY_LENGTH = 16


class Head(NamedTuple):
    """The latest block of a node, and its time in seconds since the epoch if that was read."""

    number: int
    timestamp: int | None = None


class NodeCall(NamedTuple):
    url: str
    seconds: float
    # Empty if the node answered.
    fault: str = ""
    head: Head | None = None


listeners: list[Callable[[NodeCall], None]] = []


@lru_cache(maxsize=4096)
def node_key(url: str) -> str:
    """Return the key of a node: a keyed hash, as the URL may contain an API key."""
    return salted_hmac("chain.node", url, algorithm="sha256").hexdigest()[:KEY_LENGTH]


def note_call(url: str, seconds: float, fault: Fault | None, head: Head | None = None) -> None:
    """Notify the listeners of an attempt; a fault of the request counts as an answer."""
    failure = str(fault) if fault and not fault.is_client_error else ""
    for listener in listeners:
        listener(NodeCall(url, seconds, failure, head))
