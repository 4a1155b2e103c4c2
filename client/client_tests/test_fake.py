"""The fake service: what a real one does not have."""

import asyncio
from decimal import Decimal

import httpx
import pytest

from client_tests.test_transactions import RECEIVER
from relayer_client import NO_RETRIES, errors
from relayer_client.testing import FAILED, LOST, REFUSED, SLOW, THROTTLED, FakeService, Fault

USDC = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
CAUSES = [
    (LOST, errors.ConnectionLost, True),
    (SLOW, errors.TimedOut, True),
    (REFUSED, errors.ConnectionFailed, False),
    (THROTTLED, errors.TooManyRequests, False),
    (FAILED, errors.ServerError, False),
    (Fault((503, "database_unavailable"), arrives=True), errors.DatabaseUnavailable, True),
]


@pytest.mark.parametrize(("fault", "kind", "arrives"), CAUSES)
def test_a_fault_is_that_of_one_request(fault: Fault, kind: type[errors.RelayerClientError], arrives: bool) -> None:
    service = FakeService()
    relayer = service.client(retries=NO_RETRIES).relayer("sender")
    service.inject(fault)
    with pytest.raises(kind) as raised:
        relayer.send(value=1)
    # A request that cannot have arrived is in no log.
    sent = None if fault == REFUSED else service.requests[0].headers["x-request-id"]
    assert raised.value.request_id == sent
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
    service.data |= {"GET /signers": [service.data["GET /signers/s"]], "POST /relayers/r/rpc": "0x"}
    assert client.list_signers().to_list() == [client.get_signer("s")]
    assert client.relayer("r").rpc("a", {}) == "0x"
    with pytest.raises(NotImplementedError, match="filter by created_from"):
        client.relayer("r").list_transactions(created_from="2026-11-16T12:00:00Z").first()


def test_a_json_rpc_result_can_be_a_list() -> None:
    service = FakeService()
    service.data["POST /relayers/r/rpc"] = ["0x1", "0x2"]
    assert service.client().relayer("r").rpc("a", {}) == ["0x1", "0x2"]


def test_tokens_are_listed_by_network() -> None:
    client = FakeService(decimals={USDC: 6}).client()
    found = [client.list_fee_tokens(network=network).total() for network in (None, "hardhat", "sepolia")]
    assert found == [1, 1, 0]


def test_tokens_have_the_decimals_of_the_test() -> None:
    relayer = FakeService(decimals={USDC: 6}).client().relayer("sender")
    sent = relayer.transfer_token(USDC, RECEIVER, Decimal("12.5"))
    assert (sent.to, sent.data) == (USDC, f"0xa9059cbb{RECEIVER[2:].lower():0>64}{12_500_000:064x}")
    with pytest.raises(ValueError, match="provide decimals"):
        relayer.transfer_token(RECEIVER, RECEIVER, 1)


def test_the_balance_is_that_of_the_test() -> None:
    service = FakeService()
    service.balance = 5
    relayer = service.client().relayer("sender")
    assert (relayer.balance().balance, relayer.status().balance) == (5, 5)


def test_options_of_connections_are_accepted() -> None:
    with FakeService().client(timeout=5, verify=False, proxy="http://proxy") as client:
        assert client.relayer("sender").send(value=1).status == "pending"


def test_the_transport_is_one_for_any_httpx_client() -> None:
    with httpx.Client(transport=FakeService().transport) as http, FakeService().client(http=http) as client:
        assert client.relayer("sender").send(value=1).status == "pending"
        assert http.get(f"{client.url}/api/v1/health").headers["x-request-id"]
