"""The trace of a request that asks a node or causes an event."""

from notifications.models import Delivery
from tests.api import Api
from tests.notifications.factories import send
from tests.notifications.receivers import receiver
from tests.relayer_service.jobs import run_jobs
from tests.relayers import factories
from tests.relayers.stand_in_node import StandInNode, serve
from tests.traces import TRACEPARENT, continues


def test_nodes_get_the_trace_with_a_parent_id_for_each_request(manager: Api) -> None:
    with serve(StandInNode()) as node:
        factories.relayer(network="hardhat", rpc_urls=[{"url": node.url, "weight": 100}])
        for header in (TRACEPARENT, TRACEPARENT, "00-nonsense"):
            answer = manager.get("/api/v1/relayers/relayer-1/balance", headers={"traceparent": header})
            assert answer.status == 200
    first, second, third = node.traceparents
    assert (continues(first), continues(second), first == second, third) == (True, True, False, None)


def test_the_webhooks_of_a_request_continue_its_trace(manager: Api) -> None:
    with receiver() as server:
        factories.relayer(notification=factories.notification("hook-1", url=server.url))
        traced = {"traceparent": TRACEPARENT}
        assert manager.patch("/api/v1/relayers/relayer-1", {"paused": True}, headers=traced).status == 200
        assert manager.post("/api/v1/notifications/hook-1/test", headers=traced).status == 201
        assert manager.patch("/api/v1/relayers/relayer-1", {"paused": False}).status == 200
        paused, test, resumed = Delivery.objects.select_related("notification").order_by("pk")
        send(paused, paused, test, resumed)
    *traced_requests, last = (request.headers.get("traceparent") for request in server.requests)
    assert ([continues(header) for header in traced_requests], len(set(traced_requests)), last) == (
        [True] * 3,
        3,
        None,
    )


def test_the_webhooks_of_a_job_continue_the_trace_of_the_request_that_started_it(manager: Api) -> None:
    factories.relayer(notification=factories.notification("hook-1"))
    manager.post("/api/v1/relayers/pause", {"filter": {}}, headers={"traceparent": TRACEPARENT})
    run_jobs()
    assert Delivery.objects.get().traceparent == TRACEPARENT
