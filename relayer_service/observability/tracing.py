"""The trace context of requests (W3C Trace Context): where a caller's trace continues, as a `traceparent` header.

The service records no spans. It passes the trace on: outgoing requests have its ID, each with a new parent ID.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

# The traceparent of the request in progress, or of the one that the work in progress is for; "" without one.
traceparent: ContextVar[str] = ContextVar("traceparent", default="")

MAX_LENGTH = 55
# A later version may have more fields, each after a hyphen.
FORMAT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<parent>(?!0{16})[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?",
    re.ASCII,
)
SAMPLED = 0x01


def parse(header: str) -> str:
    """Return a traceparent header in the version of this service, with the flags known to it; "" if it is invalid."""
    found = FORMAT.fullmatch(header)
    if found is None or (found["version"] == "00" and found["more"]):
        return ""
    return f"00-{found['trace']}-{found['parent']}-{int(found['flags'], 16) & SAMPLED:02x}"


def trace_id(parent: str) -> str:
    return parent[3:35]


def headers(parent: str | None = None) -> dict[str, str]:
    """Return the header that continues a trace, by default the current one, in an outgoing request; {} without one."""
    parent = traceparent.get() if parent is None else parent
    return {"traceparent": f"{parent[:36]}{secrets.token_hex(8)}{parent[52:]}"} if parent else {}


@contextmanager
def following(parent: str) -> Iterator[None]:
    """Run a block as work for the request with this traceparent, or for none."""
    context = traceparent.set(parent)
    try:
        yield
    finally:
        traceparent.reset(context)
