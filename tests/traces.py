"""A trace of a caller, and what continues it."""

from relayer_service.observability import tracing

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


def continues(header: str | None, traceparent: str = TRACEPARENT) -> bool:
    """Return whether a header has the trace and flags of another one, with a new parent ID."""
    if not header or tracing.parse(header) != header:
        return False
    is_new = header[36:52] != traceparent[36:52]
    return is_new and header[:36] + traceparent[36:52] + header[52:] == traceparent
