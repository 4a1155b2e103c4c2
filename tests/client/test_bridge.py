"""Nonces of web3.py that a node or the service know otherwise: answers in an order that no chain repeats."""

from __future__ import annotations

from typing import Any

import pytest

from relayer_client import Client, errors
from relayer_client._sync.bridge import Bridge
from relayer_client.web3_fields import Nonces
from tests.client.examples import CONFIRMED, SUBMITTED, TRANSACTION
from tests.client.scripted_server import calling, ok, refused


def send(client: Client, node: dict[str, Any], nonce: Nonces = "refuse", **fields: str) -> Any:
    """Send a transaction with the nonce 7, where the node answers each request with the same."""
    options: Any = {"address": TRANSACTION["from"], "timeout": 1.0, "prices": "service", "nonce": nonce}
    bridge = Bridge(client.relayer("sender"), lambda _method, _params: node, **options)
    return bridge.request("eth_sendTransaction", [{"to": TRANSACTION["to"], "value": "0x5", "nonce": "0x7"} | fields])


@pytest.mark.parametrize("node", [{"result": "0x8"}, {"error": {"code": -32000, "message": "busy"}}])
def test_a_nonce_that_another_program_has_used_is_refused(node: dict[str, Any]) -> None:
    with calling(refused(404, "not_found")) as (server, client):
        with pytest.raises(ValueError, match="Nonce 7 is used, or the node"):
            send(client, node)
        assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.filterwarnings("ignore:The service assigns nonces")
def test_an_empty_key_is_refused_with_a_nonce() -> None:
    script = (refused(404, "not_found"), ok(SUBMITTED))
    with calling(*script) as (_server, client), pytest.raises(ValueError, match="idempotency key"):
        send(client, {"result": "0x7"}, idempotency_key="")


def test_a_replacement_that_came_too_late_is_an_error() -> None:
    wanted = ok(SUBMITTED | {"value": "5"})
    # An earlier attempt is mined, with the former payload and another hash.
    mined = ok(CONFIRMED | {"hash": f"0x{'cd' * 32}", "value": "1"})
    script = (ok(SUBMITTED | {"value": "1"}), wanted, mined)
    with calling(*script) as (_server, client), pytest.raises(errors.WaitTimeout, match="is not replaced"):
        send(client, {}, nonce="replace")


@pytest.mark.filterwarnings("ignore:The service assigns nonces")
def test_a_nonce_of_a_former_chain_is_free_unless_it_is_used_meanwhile() -> None:
    unused, new = refused(404, "not_found"), ok(SUBMITTED | {"hash": f"0x{'cd' * 32}"})
    with calling(unused, ok(CONFIRMED), unused, new) as (server, client):
        assert send(client, {"result": "0x7"})["result"] == f"0x{'cd' * 32}"
    keys = [request.headers["idempotency-key"] for request in server.requests if request.method == "POST"]
    assert keys == ["web3-nonce-7-1", "web3-nonce-7-2"]
    with calling(unused, ok(CONFIRMED)) as (_server, client), pytest.raises(ValueError, match="which is confirmed"):
        send(client, {"result": "0x7"})
