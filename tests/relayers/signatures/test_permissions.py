"""Which token can sign, and with which relayers."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from relayer_service.models import AuditEntry
from relayers.models.tags import RelayerTag, save_tags
from relayers.signatures.signing import VALID_ELSEWHERE
from spending.models import SpendingPolicy
from tests.api import Api
from tests.contract import bodies
from tests.documents import EXTENSIONS, read_document
from tests.relayers import factories
from tests.relayers.config_files import OTHER_ADDRESS, OTHER_KEY
from tests.relayers.signatures.requests import (
    BODIES,
    HASHES,
    MESSAGE,
    PERMIT,
    SIGN,
    SIGN_TRANSACTION,
    SIGN_TYPED_DATA,
    relayer,
)
from tests.relayers.signatures.test_refusals import while_signing
from tokens.scopes import Scope
from tokens.writes import issue


def client(user: User, *scopes: str, relayers: tuple[str, ...] = ()) -> Api:
    return Api(issue(name="tests", user=user, scopes=list(scopes), allowed_relayers=list(relayers))[1])


def test_these_are_all_operations_of_the_extension() -> None:
    paths = read_document(EXTENSIONS)["paths"]
    found = {
        (method, path.removeprefix("/api/v1/relayers/{relayer_id}"), operation["security"][0]["bearer"][0])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("x-extension") == "signing"
    }
    assert found == {("post", f"/{name}", "sign") for name in ("sign", "sign-typed-data", "sign-transaction")}


def test_signing_needs_the_scope_sign(user: User) -> None:
    relayer()
    paths = {**BODIES, SIGN_TRANSACTION: {}}
    for scope in ("", *Scope.values):
        api = client(user, *filter(None, [scope]))
        answers = [api.post(path, body) for path, body in paths.items()]
        if scope == "sign":
            assert [answer.status for answer in answers] == [200, 200, 400]
            continue
        assert [(answer.status, answer.body) for answer in answers] == [(403, bodies.failure("Forbidden"))] * 3
        refused = {answer.headers["www-authenticate"] for answer in answers}
        assert refused == {'Bearer error="insufficient_scope", scope="sign"'}
    assert [Api().post(path, body).status for path, body in paths.items()] == [401, 401, 401]


@pytest.mark.parametrize("scopes", [["sign"], ["sign", "read"], ["sign", "manage"]])
def test_a_token_signs_with_its_relayers_alone(user: User, scopes: list[str]) -> None:
    other = factories.signer("signer-2", key=OTHER_KEY)
    relayer(signer=other, address=OTHER_ADDRESS)
    relayer(identifier="relayer-2")
    limited = client(user, *scopes, relayers=("relayer-2",))
    paths = {**BODIES, SIGN_TRANSACTION: {}}
    for path, body in paths.items():
        for identifier in ("relayer-1", "nobody"):
            answer = limited.post(path.replace("relayer-1", identifier), body)
            assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    assert not AuditEntry.objects.filter(object_type="relayer").exists()
    answers = [limited.post(path.replace("relayer-1", "relayer-2"), body) for path, body in paths.items()]
    assert [answer.status for answer in answers] == [200, 200, 400]


EVERYWHERE: list[tuple[str, dict[str, Any]]] = [
    (SIGN, MESSAGE),
    (SIGN_TYPED_DATA, HASHES),
    (SIGN_TYPED_DATA, PERMIT | {"domain": {"name": "A Token"}}),
]


@pytest.mark.parametrize(
    "change",
    [
        {"identifier": "mainnet"},
        {"allow_signing": []},
        {"paused": True},
        # The same key in another signer.
        {"identifier": "mainnet", "signer": "copy"},
    ],
)
def test_what_is_valid_on_every_chain_must_be_allowed_on_each(user: User, change: dict[str, Any]) -> None:
    relayer()
    signer = factories.signer(change.get("signer", "signer-1"))
    other = relayer(**{"identifier": "relayer-2", "network": "mainnet"} | change | {"signer": signer})
    limited = client(user, "sign", relayers=("relayer-1", "relayer-2"))
    for path, body in EVERYWHERE:
        answer = limited.post(path, body)
        assert (answer.status, answer.body) == (403, bodies.failure(VALID_ELSEWHERE))
        assert answer.headers["error-code"] == "signing_not_allowed"
    assert not AuditEntry.objects.filter(object_type="relayer").exists()
    # With its chain ID, it is valid on this chain alone.
    assert limited.post(SIGN_TYPED_DATA, PERMIT).status == 200
    other.delete()
    assert [limited.post(path, body).status for path, body in EVERYWHERE] == [200, 200, 200]


def test_typed_data_of_a_chain_must_be_allowed_by_all_relayers_there(user: User) -> None:
    relayer()
    relayer(identifier="relayer-2", allow_signing=["messages"])
    answer = client(user, "sign").post(SIGN_TYPED_DATA, PERMIT)
    assert (answer.status, answer.body) == (403, bodies.failure(VALID_ELSEWHERE))


def test_what_is_valid_on_every_chain_is_refused_by_the_rules_of_each(user: User) -> None:
    relayer()
    policy = SpendingPolicy.objects.create(rules={"max_value": "0"})
    other = relayer(identifier="relayer-2", network="mainnet", spending=policy)
    answer = client(user, "sign").post(SIGN_TYPED_DATA, HASHES)
    assert (answer.status, answer.headers["error-code"]) == (403, "spending_refused")
    assert AuditEntry.objects.for_row(other)[0].reason.startswith("Refused to sign typed data")


@pytest.mark.parametrize(("loses", "message"), [("relayer-1", "Forbidden"), ("relayer-2", VALID_ELSEWHERE)])
def test_a_relayer_that_loses_its_tag_meanwhile_returns_no_signature(
    user: User, monkeypatch: pytest.MonkeyPatch, loses: str, message: str
) -> None:
    save_tags({relayer().pk: ["prod"], relayer(identifier="relayer-2", network="mainnet").pk: ["prod"]})
    limited = client(user, "sign", relayers=("tag:prod",))
    assert limited.post(SIGN, MESSAGE).status == 200
    AuditEntry.objects.all().delete()
    while_signing(monkeypatch, lambda: RelayerTag.objects.filter(relayer__identifier=loses).delete())
    answer = limited.post(SIGN, MESSAGE)
    assert (answer.status, answer.body) == (403, bodies.failure(message))
    assert not AuditEntry.objects.filter(object_type="relayer").exists()


def test_a_relayer_that_gets_the_key_meanwhile_is_asked_too(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    relayer()
    while_signing(monkeypatch, lambda: relayer(identifier="relayer-2", network="mainnet", allow_signing=[]))
    answer = client(user, "sign").post(SIGN, MESSAGE)
    assert (answer.status, answer.body) == (403, bodies.failure(VALID_ELSEWHERE))
