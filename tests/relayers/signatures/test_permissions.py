"""Which token can sign, and with which relayers."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from django.contrib.auth.models import User

from relayer_service.models import AuditEntry
from tests.api import Api
from tests.contract import bodies
from tests.relayers.signatures.requests import BODIES, SIGN_TRANSACTION, relayer
from tokens.scopes import Scope
from tokens.writes import issue

DOCUMENT = Path(__file__).parents[3] / "openapi-extensions.yaml"


def client(user: User, *scopes: str, relayers: tuple[str, ...] = ()) -> Api:
    return Api(issue(name="tests", user=user, scopes=list(scopes), allowed_relayers=list(relayers))[1])


def test_these_are_all_operations_of_the_extension() -> None:
    paths = yaml.safe_load(DOCUMENT.read_text())["paths"]
    found = {
        (method, path.removeprefix("/api/v1/relayers/{relayer_id}"), operation["security"][0]["bearer"][0])
        for path, operations in paths.items()
        for method, operation in operations.items()
        if operation.get("x-extension") == "signing"
    }
    assert found == {("post", f"/{name}", "sign") for name in ("sign", "sign-typed-data", "sign-transaction")}


@pytest.mark.parametrize("path", [*BODIES, SIGN_TRANSACTION])
@pytest.mark.parametrize("scope", ["", *Scope.values])
def test_signing_needs_the_scope_sign(user: User, path: str, scope: str) -> None:
    relayer()
    answer = client(user, *filter(None, [scope])).post(path, BODIES.get(path, {}))
    if scope == "sign":
        assert answer.status == (400 if path == SIGN_TRANSACTION else 200)
        return
    assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    assert answer.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="sign"'


@pytest.mark.parametrize("scopes", [["sign"], ["sign", "read"], ["sign", "manage"]])
@pytest.mark.parametrize("path", [*BODIES, SIGN_TRANSACTION])
def test_a_token_signs_with_its_relayers_alone(user: User, path: str, scopes: list[str]) -> None:
    relayer()
    relayer(identifier="relayer-2")
    limited = client(user, *scopes, relayers=("relayer-2",))
    for identifier in ("relayer-1", "nobody"):
        answer = limited.post(path.replace("relayer-1", identifier), BODIES.get(path, {}))
        assert (answer.status, answer.body) == (403, bodies.failure("Forbidden"))
    assert not AuditEntry.objects.filter(object_type="relayer").exists()
    answer = limited.post(path.replace("relayer-1", "relayer-2"), BODIES.get(path, {}))
    assert answer.status == (400 if path == SIGN_TRANSACTION else 200)


def test_without_a_token_nothing_is_disclosed() -> None:
    assert [Api().post(path, body).status for path, body in BODIES.items()] == [401, 401]
