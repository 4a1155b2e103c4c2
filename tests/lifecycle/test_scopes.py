"""Which token may do what: every operation with no token, without a scope, with a wrong one and with the right one."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from notifications.models import Notification
from relayer_service.models import Job
from relayers.models import Relayer
from signers.models import Signer
from tests.api import Api
from tests.contract import bodies
from tests.documents import EXTENSIONS, read_document
from tests.relayers import factories
from tokens.models import AccessToken, forget
from tokens.scopes import Scope, grants
from tokens.writes import issue

SIGNER = {"type": "plain", "config": {"key": factories.KEY}}
RELAYER = {"name": "R", "network": "sepolia", "network_type": "evm", "signer_id": "signer-1", "paused": False}

FEE_TOKEN = {"network": "sepolia", "symbol": "USDC", "address": factories.ADDRESS, "sources": []}

# By operation: the scope that it needs, and its body.
OPERATIONS: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/api/v1/signers/{signer_id}"): ("read", None),
    ("PATCH", "/api/v1/signers/{signer_id}"): ("manage", {}),
    ("DELETE", "/api/v1/signers/{signer_id}"): ("manage", None),
    ("GET", "/api/v1/notifications"): ("read", None),
    ("POST", "/api/v1/notifications"): ("manage", {"url": "https://hooks.example.com"}),
    ("GET", "/api/v1/notifications/{notification_id}"): ("read", None),
    ("DELETE", "/api/v1/notifications/{notification_id}"): ("manage", None),
    ("GET", "/api/v1/notifications/{notification_id}/deliveries"): ("read", None),
    ("GET", "/api/v1/notifications/{notification_id}/deliveries/{delivery_id}"): ("read", None),
    ("POST", "/api/v1/notifications/{notification_id}/deliveries/{delivery_id}/replay"): ("manage", None),
    ("POST", "/api/v1/notifications/{notification_id}/deliveries/replay"): ("manage", {"filter": {}}),
    ("POST", "/api/v1/notifications/{notification_id}/test"): ("manage", None),
    ("POST", "/api/v1/relayers"): ("manage", RELAYER),
    ("POST", "/api/v1/relayers/pause"): ("manage", {"filter": {}}),
    ("POST", "/api/v1/relayers/resume"): ("manage", {"filter": {}}),
    ("GET", "/api/v1/relayers/{relayer_id}"): ("read", None),
    ("PATCH", "/api/v1/relayers/{relayer_id}"): ("manage", {}),
    ("DELETE", "/api/v1/relayers/{relayer_id}"): ("manage", None),
    ("GET", "/api/v1/relayers/{relayer_id}/status"): ("read", None),
    ("GET", "/api/v1/relayers/{relayer_id}/balance"): ("read", None),
    ("GET", "/api/v1/jobs/{job_id}"): ("read", None),
    ("GET", "/api/v1/networks"): ("read", None),
    ("GET", "/api/v1/networks/{network_id}"): ("read", None),
    ("GET", "/api/v1/fee-tokens"): ("read", None),
    ("POST", "/api/v1/fee-tokens"): ("manage", FEE_TOKEN),
    ("GET", "/api/v1/fee-tokens/{fee_token_id}"): ("read", None),
    ("PATCH", "/api/v1/fee-tokens/{fee_token_id}"): ("manage", {}),
    ("DELETE", "/api/v1/fee-tokens/{fee_token_id}"): ("manage", None),
    ("POST", "/api/v1/tokens/rotate"): ("rotate", None),
}
# As those, of the contract: a token without scopes may do them too.
CONTRACT: dict[tuple[str, str], tuple[str, Any]] = {
    ("GET", "/api/v1/signers"): ("read", None),
    ("POST", "/api/v1/signers"): ("manage", SIGNER),
    ("GET", "/api/v1/relayers"): ("read", None),
    ("PATCH", "/api/v1/notifications/{notification_id}"): ("manage", {"url": "https://hooks.example.com/b"}),
    ("POST", "/api/v1/relayers/{relayer_id}/rpc"): (
        "read",
        {"jsonrpc": "2.0", "id": "1", "method": "unknown", "params": {}},
    ),
}
PLACES = {
    "{signer_id}": "signer-1",
    "{notification_id}": "hook-1",
    "{delivery_id}": "msg_1",
    "{relayer_id}": "relayer-1",
    "{job_id}": "1",
    "{network_id}": "evm:sepolia",
    "{fee_token_id}": "sepolia:USDC",
}


def rows() -> list[Any]:
    return [model.objects.count() for model in (Signer, Relayer, Job)] + [*Notification.objects.values_list("url")]


def ask(api: Api, operation: tuple[str, str]) -> Any:
    method, path = operation
    for place, value in PLACES.items():
        path = path.replace(place, value)
    return api(method, path, (OPERATIONS | CONTRACT)[operation][1])


def test_the_tables_have_every_operation() -> None:
    paths = read_document(EXTENSIONS)["paths"]
    documented: dict[str, set[tuple[str, str]]] = {}
    for path, operations in paths.items():
        for method, operation in operations.items():
            if operation.get("security") == []:
                # The health paths, which need no token.
                continue
            documented.setdefault(operation.get("x-extension", ""), set()).add((method.upper(), path))
    # `test_permissions.py` in `tests/transactions/rest` and `tests/relayers/signatures` have those of the others.
    del documented["transactions"], documented["signing"]
    assert documented == {"lifecycle": set(OPERATIONS), "": set(CONTRACT)}


@pytest.mark.parametrize("operation", [*OPERATIONS, *CONTRACT], ids=" ".join)
def test_an_operation_is_for_tokens_with_its_scope_alone(user: User, operation: tuple[str, str]) -> None:
    factories.relayer()
    factories.notification("hook-1")
    needed, _ = (OPERATIONS | CONTRACT)[operation]
    anonymous = ask(Api(), operation)
    assert (anonymous.status, anonymous.body) == (401, bodies.failure("Unauthorized"))
    for scopes in ([], *([scope.value] for scope in Scope)):
        api = Api(issue(name="tests", user=user, scopes=scopes)[1])
        before = rows()
        answer = ask(api, operation)
        if grants(scopes, needed) or (not scopes and operation in CONTRACT):
            assert answer.status not in {401, 403}
        else:
            assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
            assert answer.headers["www-authenticate"] == f'Bearer error="insufficient_scope", scope="{needed}"'
            assert rows() == before


@pytest.mark.parametrize("operation", [*OPERATIONS, *CONTRACT], ids=" ".join)
def test_changes_by_the_extension_have_a_rate_and_those_of_the_contract_none(
    user: User, settings: Any, operation: tuple[str, str]
) -> None:
    settings.RATE_LIMIT_RPC = "1/d"
    factories.relayer()
    factories.notification("hook-1")
    api = Api(issue(name="tests", user=user, scopes=["manage"])[1])
    # What waits for nodes is counted separately: a relayer that is created or changed, too.
    balance, pause = ("GET", "/api/v1/relayers/{relayer_id}/balance"), ("POST", "/api/v1/relayers/pause")
    assert 429 not in {ask(api, balance).status, ask(api, pause).status}
    is_change = operation in OPERATIONS and OPERATIONS[operation][0] == "manage"
    answer = ask(api, operation)
    assert (answer.status == 429) is (is_change or operation == balance)
    if is_change:
        assert answer.body == bodies.failure("Too Many Requests")
        assert int(answer.headers["retry-after"]) >= 1


def test_a_sender_reads_its_relayers_and_nothing_else(user: User, settings: Any) -> None:
    factories.relayer()
    factories.relayer(identifier="relayer-2")
    limits = {"scopes": ["send"], "allowed_relayers": ["relayer-2"]}
    api = Api(issue(name="payments", user=user, **limits)[1])
    assert api.get("/api/v1/relayers/relayer-2").status == 403
    settings.EXTENSIONS = ["lifecycle", "transactions"]
    listed = api.get("/api/v1/relayers").body
    assert ([each["id"] for each in listed["data"]], listed["pagination"]["total_items"]) == (["relayer-2"], 1)
    paths = ["relayers/relayer-2", "relayers/relayer-2/status", "relayers/relayer-1", "relayers/relayer-1/status"]
    assert [api.get(f"/api/v1/{path}").status for path in [*paths, "signers"]] == [200, 200, 404, 404, 403]


def test_metrics_are_for_tokens_that_read(user: User) -> None:
    answers = []
    for scopes in ([], ["read"], ["send"]):
        api = Api(issue(name="prometheus", user=user, scopes=scopes)[1])
        answers.append(api.get("/metrics"))
    assert [answer.status for answer in answers] == [200, 200, 403]
    assert answers[2].headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="read"'


def test_a_scope_that_is_unknown_allows_nothing_and_harms_nothing(user: User) -> None:
    factories.relayer()
    token, text = issue(name="of a later release", user=user)
    answers = []
    for scopes in (["audit"], ["audit", "read"]):
        AccessToken.objects.filter(pk=token.pk).update(scopes=scopes)
        forget({token.key})
        answers.append(Api(text).get("/api/v1/relayers/relayer-1").status)
    assert answers == [403, 200]
    # Nothing is disclosed without the scope, which a method that a path lacks does not need.
    api = Api(issue(name="sender", user=user, scopes=["send"])[1])
    there, missing = api.get("/api/v1/relayers/relayer-1"), api.get("/api/v1/relayers/relayer-2")
    assert (there.status, there.body) == (missing.status, missing.body) == (403, bodies.failure("Forbidden"))
    assert [api(method, "/api/v1/signers").status for method in ("OPTIONS", "DELETE")] == [405, 405]


def test_without_the_extension_an_operation_is_as_unknown_as_any(manager: Api, settings: Any) -> None:
    settings.EXTENSIONS = []
    factories.relayer()
    factories.notification("hook-1")
    for operation in OPERATIONS:
        _, path = operation
        answer = ask(manager, operation)
        # The contract has another method at these paths; an id may have slashes in it.
        is_known = path == "/api/v1/relayers" or path.startswith("/api/v1/notifications/")
        expected = (405, "Method Not Allowed") if is_known else (404, "Not Found")
        assert (answer.status, answer.body) == (expected[0], bodies.failure(expected[1])), operation


@pytest.mark.parametrize("ending", ["deliveries", "deliveries/msg_1/replay", "deliveries/replay", "test/"])
def test_a_new_id_does_not_end_like_a_path_of_the_extension_and_an_old_one_can(
    manager: Api, api: Api, ending: str
) -> None:
    identifier = f"hooks/{ending}"
    answer = manager.post("/api/v1/notifications", {"id": identifier, "url": "https://hooks.example.com"})
    fault = f"id: an id must not end with /{ending}, which is a path of the API"
    assert (answer.status, bodies.uncoded(answer.body)) == (400, bodies.bad_request(fault))
    factories.notification(identifier)
    answer = api.patch(f"/api/v1/notifications/{identifier}", {"url": "https://hooks.example.com/b"})
    assert (answer.status, answer.body["data"]["id"]) == (200, identifier)
    assert api.patch("/api/v1/notifications/another/test", {}).body == bodies.failure("Notification not found")
