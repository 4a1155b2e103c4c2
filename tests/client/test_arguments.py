"""Arguments that could reach another resource, or no key, are refused before anything is sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from notifications.models import Notification
from relayer_client import Client, Relayer, errors
from relayer_client.checks import RESERVED
from relayers import models
from tests.client.examples import TRANSACTION
from tests.client.scripted_server import calling, ok

ID = TRANSACTION["id"]
# Their parameters of these names are no parts of a path.
OTHERS = {"__init__", "_transaction_path", "fee_estimate", "fee_quote"}
TAKES_ID = [
    (name, parameter)
    for name, method in {**vars(Client), **vars(Relayer)}.items()
    for parameter in (inspect.signature(method).parameters if inspect.isfunction(method) else ())
    if name not in OTHERS and (parameter == "transaction" or parameter.endswith("_id"))
]


def call(client: Client, name: str, identifier: Any) -> Any:
    """Call a method with an ID in all its places."""
    owner: Any = client if hasattr(client, name) else client.relayer("sender")
    parameters = inspect.signature(getattr(owner, name)).parameters.values()
    required = [each for each in parameters if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    return getattr(owner, name)(*[identifier for _ in required])


ENDS = {
    "relayer_id": ["rpc", "status", "sign", "transactions", "transactions/pending", f"transactions/{ID}"],
    "notification_id": ["test", "deliveries", "deliveries/msg_1", "deliveries/msg_1/replay", "deliveries/replay"],
}


def test_an_id_that_changes_the_path_is_refused() -> None:
    with calling(ok({})) as (server, client):
        for name, _ in TAKES_ID:
            for identifier in ("..", ".", "", "a/../b", "a/"):
                with pytest.raises(ValueError, match=r"is not an ID|is a UUID"):
                    call(client, name, identifier)
        # One that ends as a path of the API.
        for parameter, ends in ENDS.items():
            for name in [name for name, each in TAKES_ID if each == parameter]:
                for end in ends:
                    with pytest.raises(ValueError, match="is not an ID"):
                        call(client, name, f"x/{end}")
        assert server.requests == []


def test_reserved_ends_of_ids_are_those_of_the_service() -> None:
    assert {"relayers": models.Relayer.reserved_ending, "notifications": Notification.reserved_ending} == RESERVED


def test_the_response_to_another_operation_is_no_deletion() -> None:
    with calling(ok({"total_processed": 1}), ok("Relayer deleted successfully")) as (_server, client):
        with pytest.raises(errors.InvalidResponse):
            client.delete_relayer("a")
        client.delete_relayer("a")


def test_the_id_of_a_transaction_is_a_uuid() -> None:
    with calling(ok(TRANSACTION)) as (server, client):
        for name in ("get_transaction", "cancel", "replace", "speed_up", "wait"):
            for identifier in ("pending", "by-nonce/1", f"{ID}/speed-up", f"0x{'ab' * 32}", None):
                with pytest.raises(ValueError, match="is a UUID"):
                    call(client, name, identifier)
        assert server.requests == []
        client.relayer("a/b c?").cancel(ID.upper())
    assert [request.path for request in server.requests] == [f"/api/v1/relayers/a%2Fb%20c%3F/transactions/{ID}"]


def test_a_float_and_an_unknown_filter_are_refused() -> None:
    with calling(ok([])) as (server, client):
        relayer = client.relayer("sender")
        sending: list[Any] = [relayer.send, relayer.dry_run, partial(relayer.replace, ID)]
        for send in sending:
            with pytest.raises(TypeError, match=r"value is a float, which is rounded. Use .* int\(Decimal\('0.5'\)"):
                send(value=0.5)
        wrong: dict[str, Callable[[Any], Any]] = {
            "policies.min_balance": lambda half: client.update_relayer("r", policies={"min_balance": half}),
            "sources.0.rate": lambda half: client.update_fee_token("a:B", sources=[{"kind": "fixed", "rate": half}]),
        }
        for name, update in wrong.items():
            with pytest.raises(TypeError, match=f"^{name} is a float"):
                update(0.5)
        listing: list[Any] = [relayer.list_transactions, client.list_relayers, partial(client.list_deliveries, "n")]
        for find in listing:
            with pytest.raises(TypeError, match="Unknown filter: stat"):
                find(stat="failed")
        assert server.requests == []


def test_an_idempotency_key_that_cannot_be_sent_is_refused() -> None:
    keys: list[Any] = ["", " ", "naïve", "a\nb", "a\x00", " padded", "a,b", "k" * 256, 4711]
    with calling(ok(TRANSACTION)) as (server, client):
        for key in keys:
            with pytest.raises(ValueError, match="idempotency key is a string of 1 to 255 visible ASCII"):
                client.relayer("sender").send(value=0, idempotency_key=key)
            with pytest.raises(ValueError, match="idempotency key"):
                client.create_signer(type="plain", config={}, idempotency_key=key)
        assert server.requests == []
