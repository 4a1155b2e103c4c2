"""SIGNER_TYPE_ALIASES: signer types by the names of OpenZeppelin Relayer, for tokens with a scope."""

import pytest
from pytest_django import Settings

from signers import type_aliases
from signers.config_shapes import SignerType
from signers.models import Signer
from tests.api import Api
from tests.contract import bodies
from tests.contract.test_signers import TYPES
from tests.signers.examples import CONFIGS, SHOWN

AWS = {"id": "s", "type": "aws_kms", "config": CONFIGS["provider_a_kms"]}


@pytest.fixture
def aliases(settings: Settings) -> None:
    settings.SIGNER_TYPE_ALIASES = True


@pytest.mark.usefixtures("aliases")
def test_a_signer_is_created_and_read_with_an_alias(manager: Api) -> None:
    assert {*type_aliases.TYPES.values()} == {*SignerType}
    for alias, signer_type in type_aliases.TYPES.items():
        shown = {"id": alias, "type": alias, "config": SHOWN[signer_type]}
        created = manager.post("/api/v1/signers", {"id": alias, "type": alias, "config": CONFIGS[signer_type]})
        assert (created.status, created.body) == (201, bodies.success(shown))
        read = manager.get(f"/api/v1/signers/{alias}")
        assert (read.status, read.body) == (200, bodies.success(shown))
        assert Signer.objects.get(identifier=alias).type == signer_type


@pytest.mark.usefixtures("aliases")
def test_another_type_config_or_token_is_refused(manager: Api, api: Api, settings: Settings) -> None:
    refused = api.post("/api/v1/signers", AWS)
    assert (refused.status, refused.body) == (400, bodies.bad_request(TYPES))
    refused = manager.post("/api/v1/signers", AWS | {"config": {"key_id": "k"}})
    assert (refused.status, refused.body) == (400, bodies.bad_request("config.region: this field is required"))
    for signer_type in ("azure_key_vault", ["aws_kms"], {"aws_kms": 1}, None):
        assert manager.post("/api/v1/signers", AWS | {"type": signer_type}).status == 400
    settings.EXTENSIONS = []
    assert manager.post("/api/v1/signers", AWS).status == 400


@pytest.mark.usefixtures("aliases")
def test_requests_of_the_interface_document_are_answered_with_its_types(manager: Api, api: Api) -> None:
    shown = {"id": "s", "type": "provider_a_kms", "config": SHOWN["provider_a_kms"]}
    created = manager.post("/api/v1/signers", AWS | {"type": "provider_a_kms"})
    assert (created.status, created.body) == (201, bodies.success(shown))
    for client in (manager, api):
        assert client.get("/api/v1/signers").body == bodies.page([shown], total_items=1)


def test_aliases_are_off_by_default_and_name_the_setting(manager: Api, api: Api) -> None:
    refused = manager.post("/api/v1/signers", AWS)
    text = "type: aws_kms is an alias: use provider_a_kms, or set SIGNER_TYPE_ALIASES=true"
    assert (refused.status, refused.body) == (400, bodies.bad_request(text))
    # As in the interface document.
    assert api.post("/api/v1/signers", AWS).body == bodies.bad_request(TYPES)
    manager.post("/api/v1/signers", AWS | {"type": "provider_a_kms"})
    assert manager.get("/api/v1/signers/s").body["data"]["type"] == "provider_a_kms"
