"""The fake service: what a real one does not have."""

import asyncio

import httpx
import pytest

from relayer_client import NO_RETRIES, errors
from relayer_client.testing import FAILED, LOST, REFUSED, SLOW, THROTTLED, FakeService, Fault

CAUSES = [
    (LOST, errors.ConnectionLost, True),
    (SLOW, errors.TimedOut, True),
    (REFUSED, errors.ConnectionFailed, False),
    (THROTTLED, errors.TooManyRequests, False),
    (FAILED, errors.ServerError, False),
    (Fault((503, "database_unavailable"), arrives=True), errors.DatabaseUnavailable, True),
]


@pytest.mark.parametrize(("fault", "kind", "arrives"), CAUSES)
def test_a_fault_is_that_of_one_request(fault: Fault, kind: type[Exception], arrives: bool) -> None:
    service = FakeService()
    relayer = service.client(retries=NO_RETRIES).relayer("sender")
    service.inject(fault)
    with pytest.raises(kind):
        relayer.send(value=1)
    assert relayer.list_transactions().total() == int(arrives)
    assert [request.method for request in service.requests] == ["POST", "GET"]


def test_transactions_reach_a_status_by_themselves() -> None:
    async def send(service: FakeService) -> list[str]:
        async with service.async_client() as client:
            relayer = client.relayer("a/b")
            sent = [await relayer.send(value=value) for value in range(2)]
            return [each.status for each in await relayer.wait_all(sent, "final")]

    for status in ("confirmed", "failed", "expired"):
        assert asyncio.run(send(FakeService(reaches=status))) == [status] * 2


def test_a_transaction_never_moves_back() -> None:
    service = FakeService()
    sent = service.client().relayer("sender").send(value=1)
    service.move(sent, "mined")
    with pytest.raises(ValueError, match="mined cannot become submitted"):
        service.move(sent, "submitted")
    service.move(sent.id, "failed", "It reverted.")
    with pytest.raises(ValueError, match="failed cannot become confirmed"):
        service.move(sent, "confirmed")


def test_other_operations_return_what_the_test_says() -> None:
    service = FakeService()
    client = service.client()
    with pytest.raises(NotImplementedError, match="no GET /signers/s: set it in `data`"):
        client.get_signer("s")
    service.data["GET /signers/s"] = {"id": "s", "type": "plain", "config": {}}
    assert client.get_signer("s").id == "s"


def test_options_of_connections_are_accepted() -> None:
    with FakeService().client(timeout=5, verify=False, proxy="http://proxy") as client:
        assert client.relayer("sender").send(value=1).status == "pending"


def test_the_transport_is_one_for_any_httpx_client() -> None:
    with httpx.Client(transport=FakeService().transport) as http, FakeService().client(http=http) as client:
        assert client.relayer("sender").send(value=1).status == "pending"
