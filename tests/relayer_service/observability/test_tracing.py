"""The trace context of requests: which headers continue a trace, and where its ID is found."""

import pytest

from relayer_service.observability import tracing
from tests.api import Api, WireApi
from tests.conftest import Log
from tests.contract import raw
from tests.traces import PARENT, TRACE, TRACEPARENT

HEADERS = {
    TRACEPARENT: TRACEPARENT,
    f"00-{TRACE}-{PARENT}-00": f"00-{TRACE}-{PARENT}-00",
    # Flags that this version does not have are not passed on.
    f"00-{TRACE}-{PARENT}-ff": TRACEPARENT,
    # A later version may have more fields.
    f"cc-{TRACE}-{PARENT}-01": TRACEPARENT,
    f"cc-{TRACE}-{PARENT}-01-what the future will be like": TRACEPARENT,
    f"cc-{TRACE}-{PARENT}-01.what": "",
    f"00-{TRACE}-{PARENT}-01-what": "",
    f"ff-{TRACE}-{PARENT}-01": "",
    f"00-{'0' * 32}-{PARENT}-01": "",
    f"00-{TRACE}-{'0' * 16}-01": "",
    f"00-{TRACE.upper()}-{PARENT}-01": "",
    f"00-{TRACE[1:]}-{PARENT}-01": "",
    f"00-{TRACE}-{PARENT}-1": "",
    f"0x-{TRACE}-{PARENT}-01": "",
    f"{TRACEPARENT}\n": "",
    f"{TRACEPARENT},{TRACEPARENT}": "",
    "": "",
}


def test_a_header_is_valid_as_in_the_specification() -> None:
    assert {header: tracing.parse(header) for header in HEADERS} == HEADERS


@pytest.mark.parametrize(("header", "trace_id"), [(TRACEPARENT, TRACE), ("00-nonsense", None), ("", None)])
def test_a_line_of_the_log_has_the_trace_of_its_request(api: Api, log: Log, header: str, trace_id: str | None) -> None:
    answer = api.get("/api/v1/items", headers={"traceparent": header})
    assert answer.status == 200
    lines = log.lines(answer.headers["x-request-id"])
    assert {line.get("trace_id") for line in lines if line["logger"] == "relayer_service.requests"} == {trace_id}


def test_a_header_that_is_not_ascii_is_ignored_too(wire: WireApi) -> None:
    head = b"traceparent: \xe9\r\n" + raw.bearer(wire.token)
    assert raw.send(wire.port, raw.request(b"GET", b"/api/v1/signers", head)).status == 200
