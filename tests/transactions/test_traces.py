"""The trace of the request that sent a transaction: stored with it, and continued by the workers."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from notifications.models import Delivery
from relayer_service.observability import tracing
from signers.backends.local import Local
from tests.api import Api
from tests.chain import faults
from tests.conftest import Log
from tests.notifications import factories as deliveries
from tests.notifications.receivers import receiver
from tests.relayers import factories
from tests.traces import TRACE, TRACEPARENT, continues
from tests.transactions.hardhat import LocalChain
from tests.transactions.rest.requests import PATH, TRANSFER
from tests.transactions.single_turns import take_turn
from tokens.writes import issue
from transactions.lanes import leasing
from transactions.models import Lane, Transaction

pytestmark = pytest.mark.django_db


def test_the_trace_reaches_nodes_webhooks_and_logs_of_workers(
    user: User, local_chain: LocalChain, settings: Any, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EXTENSIONS = ["transactions"]
    sender = Api(issue(name="payments", user=user, scopes=["send"])[1])
    with faults.node(faults.good, local_chain.url) as node, receiver() as server:
        hook = factories.notification("hook-1", url=server.url)
        factories.relayer(network="hardhat", notification=hook, rpc_urls=[{"url": node.url, "weight": 100}])
        # The second one is replayed, and adds nothing.
        for header in (TRACEPARENT, ""):
            headers = {"Idempotency-Key": "a", "traceparent": header}
            assert sender.post(PATH, TRANSFER, headers=headers).status == 200
        assert Transaction.objects.get().traceparent == TRACEPARENT
        assert continues_by_method(node) == {}

        lane = leasing.claim(Lane.objects.get().pk)
        assert lane is not None
        signed_for = traces_of_signatures(monkeypatch)
        take_turn(lane)
        assert signed_for == [TRACEPARENT]
        assert continues_by_method(node) == {"eth_sendRawTransaction": True}

        delivery = Delivery.objects.select_related("notification").get()
        (outcome,) = deliveries.send(delivery)
        deliveries.exchange(hook, outcome)
        (request,) = server.requests
        assert (delivery.event, continues(request.headers["traceparent"])) == ("transaction.submitted", True)
    loggers = [line["logger"] for line in log.parsed() if line.get("trace_id") == TRACE]
    assert loggers == ["relayer_service.requests", "notifications.delivery.outbox"]


def traces_of_signatures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the trace of each signature, which a backend's requests continue."""
    found: list[str] = []

    def sign(backend: Local, digest: bytes) -> tuple[int, int]:
        found.append(tracing.traceparent.get())
        return sign_locally(backend, digest)

    sign_locally = Local._sign
    monkeypatch.setattr(Local, "_sign", sign)
    return found


def continues_by_method(node: faults.NodeServer) -> dict[str, bool]:
    """Return the methods of requests with a trace, and whether it is that of the caller."""
    found = zip(node.methods, node.traceparents, strict=True)
    return {",".join(methods): continues(header) for methods, header in found if header}
