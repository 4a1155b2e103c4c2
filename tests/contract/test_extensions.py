"""Extensions: off, nothing of them is there; on, they are answered and the OpenAPI document marks them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import User
from drf_spectacular.utils import OpenApiExample
from pytest_django import Settings
from rest_framework import serializers

from relayer_service import extensions
from relayer_service.api.schema.openapi import TAGS
from relayer_service.api.serializers import StrictSerializer, StringField
from relayers.models import Relayer
from rpc import schema
from rpc.methods import METHODS
from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimateParams
from tests import check_schema
from tests.api import Answer, Api
from tests.contract import bodies
from tests.contract.rpc_calls import PATH, relayer
from tests.documents import EXTENSIONS, parse, read_document
from tests.sample.models import Item
from tokens.writes import issue

RPC = "/api/v1/relayers/{relayer_id}/rpc"


class ShoutParams(StrictSerializer):
    """What is shouted."""

    word = StringField()


class Volume(serializers.Serializer[Any]):
    """How loud it was."""

    decibels = StringField()


class ShoutResult(serializers.Serializer[Any]):
    """What was shouted."""

    method = StringField()
    word = StringField()
    volume = Volume()


class WhisperResult(ShoutResult):
    """What was whispered."""


class Shout(Method):
    name = "shout"
    network_type = "evm"
    params_class: ClassVar[type[StrictSerializer]] = ShoutParams
    result_class: ClassVar[type[serializers.Serializer[Any]]] = ShoutResult
    extension = "quotes"

    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"method": self.name, "word": params["word"].upper(), "volume": {"decibels": "80"}}


class Whisper(Shout):
    """A method whose params are those of the contract's."""

    name = "whisper"
    params_class = FeeEstimateParams
    result_class = WhisperResult


@pytest.fixture(autouse=True)
def shout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have two methods of an extension, and no others of extensions."""
    for key in [key for key, method in METHODS.items() if method.extension]:
        monkeypatch.delitem(METHODS, key)
    call = {"jsonrpc": "2.0", "id": 1, "method": "shout", "params": {"word": "hello"}}
    example = OpenApiExample("Shout", call, summary="A word", request_only=True)
    monkeypatch.setitem(METHODS, ("evm", "shout"), Shout())
    monkeypatch.setitem(METHODS, ("evm", "whisper"), Whisper())
    monkeypatch.setitem(schema.EXAMPLES, "shout", [example])


@pytest.fixture
def off(settings: Settings) -> None:
    settings.EXTENSIONS = []


@pytest.fixture
def on(settings: Settings) -> None:
    settings.EXTENSIONS = ["quotes"]


def document(api: Api) -> dict[str, Any]:
    text = api.get("/api/schema").text
    check_schema.validate(text.decode())
    return parse(text)


def marks(node: Any, path: str = "") -> dict[str, str]:
    """Return the extensions that a document's parts are marked with, by their paths."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if not isinstance(node, dict):
        return {}
    found = {path: node["x-extension"]} if "x-extension" in node else {}
    for key, value in node.items():
        found |= marks(value, f"{path}/{key}")
    return found


def without_request_id(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    return answer.status, {**answer.headers, "x-request-id": ""}, answer.text


def call(api: Api, method: str) -> Answer:
    return api.post(PATH, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"word": "hello"}})


def test_a_method_of_an_extension_that_is_off_is_answered_like_an_unknown_one(api: Api, off: None) -> None:
    relayer()
    description = "This method does not exist on relayers of type evm."
    assert call(api, "shout").body == bodies.rpc_error(-32601, "Method not found", description)
    assert without_request_id(call(api, "shout")) == without_request_id(call(api, "other"))


def test_a_method_of_an_extension_that_is_on_is_answered(api: Api, on: None) -> None:
    relayer()
    result = {"method": "shout", "word": "HELLO", "volume": {"decibels": "80"}}
    assert call(api, "shout").body == bodies.rpc_result(result)


def test_a_path_of_an_extension_that_is_off_is_answered_like_an_unknown_one(api: Api, off: None) -> None:
    Item.objects.create(identifier="a", name="A")
    for caller in (api, Api()):
        for method, path in (("DELETE", "items/a"), ("POST", "items/a/polish"), ("PUT", "items/a/polish")):
            answer, unknown = (caller(method, f"/api/v1/{each}", {"shine": "much"}) for each in (path, "nowhere"))
            assert (answer.status, answer.body) == (404, bodies.failure("Not Found"))
            assert without_request_id(answer) == without_request_id(unknown)
    assert Item.objects.count() == 1


def test_a_path_of_an_extension_that_is_on_is_answered_to_a_token_with_its_scope(
    api: Api, on: None, user: User
) -> None:
    Item.objects.create(identifier="a", name="A")
    assert api("DELETE", "/api/v1/items/a").status == 403
    manager = Api(issue(name="manager", user=user, scopes=["manage"])[1])
    assert manager.post("/api/v1/items/a/polish", {"shine": "much"}).body == bodies.success({"shine": "much"})
    assert manager("DELETE", "/api/v1/items/a").status == 204
    assert not Item.objects.exists()


@pytest.mark.parametrize(("extension", "status", "names"), [("quotes", 201, ["A"]), ("lifecycle", 409, ["B", "A"])])
def test_keys_and_filters_are_those_of_the_extension_that_a_viewset_names(
    api: Api, settings: Settings, extension: str, status: int, names: list[str]
) -> None:
    settings.EXTENSIONS = [extension]
    Item.objects.create(identifier="b", name="B")
    body, headers = {"id": "a", "name": "A"}, {"Idempotency-Key": "4b1e-7"}
    assert api.post("/api/v1/items", body, headers=dict(headers)).status == 201
    assert api.post("/api/v1/items", body, headers=dict(headers)).status == status
    assert [item["name"] for item in api.get("/api/v1/items?name=A").body["data"]] == names


def test_the_document_has_nothing_of_extensions_that_are_off(api: Api, off: None) -> None:
    found = document(api)
    assert marks(found) == {}
    assert "webhooks" not in found
    text = str(found).lower()
    assert [word for word in ("extension", "shout", "volume", "polish") if word in text] == []


def test_the_document_marks_all_that_an_extension_brings_and_nothing_else(api: Api, on: None) -> None:
    found = document(api)
    assert marks(found) == dict.fromkeys(
        [
            "/paths//api/v1/items/get/parameters/0",
            "/paths//api/v1/items/post/parameters/0",
            "/paths//api/v1/items/{identifier}/delete",
            "/paths//api/v1/items/{identifier}/polish/post",
            "/components/schemas/BadRequest",
            "/components/schemas/Fault",
            "/components/schemas/Polish",
            "/components/schemas/PolishRequest",
            "/components/schemas/ShoutParamsRequest",
            "/components/schemas/ShoutResult",
            "/components/schemas/Volume",
            "/components/schemas/WhisperResult",
        ],
        "quotes",
    )

    names = ["Relayers", "JSON-RPC", "Signers", "Notifications"]
    assert found["tags"] == [*({"name": name, "description": TAGS[name]} for name in names), {"name": "items"}]
    assert found["info"]["description"].endswith(f"\n\n- `quotes`: {extensions.BUILT['quotes']}")
    polish = found["paths"]["/api/v1/items/{identifier}/polish"]["post"]
    assert (polish["tags"], polish["description"][-20:]) == (["items"], "Extension: `quotes`.")

    operation, schemas = found["paths"][RPC]["post"], found["components"]["schemas"]
    assert operation["tags"] == ["JSON-RPC"]
    assert (
        "Methods: `feeEstimate`, `shout` (extension quotes), `whisper` (extension quotes).\n"
        in operation["description"]
    )
    examples = operation["requestBody"]["content"]["application/json"]["examples"]
    assert examples["Shout"]["summary"] == "A word (extension quotes)"
    assert examples["FeeEstimate"]["summary"] == "The fee of a transaction, in the network's coin"
    assert {"$ref": "#/components/schemas/ShoutParamsRequest"} in schemas["RpcRequest"]["properties"]["params"][
        "oneOf"
    ]
    results = {
        "feeEstimate": "#/components/schemas/FeeEstimateResult",
        "shout": "#/components/schemas/ShoutResult",
        "whisper": "#/components/schemas/WhisperResult",
    }
    assert schemas["RpcResponse"]["properties"]["result"] == {
        "oneOf": [{"$ref": reference} for reference in results.values()],
        "discriminator": {"propertyName": "method", "mapping": results},
    }
    assert schemas["ShoutResult"]["properties"]["method"] == {"type": "string", "const": "shout"}


def test_a_price_source_has_the_fields_of_its_kind_alone() -> None:
    schemas = read_document(EXTENSIONS)["components"]["schemas"]
    feed, sequencer = {"feed", "heartbeat_seconds"}, {"sequencer_feed", "sequencer_grace_seconds"}
    expected: dict[str, tuple[set[str], set[str]]] = {
        "fixed": ({"rate", "max_age_seconds"}, set()),
        "chainlink_usd": (feed | {"native_feed", "native_heartbeat_seconds"}, sequencer),
        "chainlink_native": (feed, sequencer),
        "uniswap_v2": ({"pair", "wrapped_native", "min_liquidity"}, set()),
    }
    for owner in ("CreateFeeTokenRequest", "UpdateFeeTokenRequest", "FeeToken"):
        mapping = schemas[owner]["properties"]["sources"]["items"]["discriminator"]["mapping"]
        assert mapping.keys() == expected.keys()
        for kind, (required, optional) in expected.items():
            shape = schemas[mapping[kind].rpartition("/")[2]]
            assert mapping[kind].endswith("SourceRequest" if "Request" in owner else "Source")
            assert shape["properties"]["kind"]["const"] == kind
            assert set(shape["required"]) == required | {"kind"}
            assert set(shape["properties"]) == required | optional | {"kind"}


def test_a_document_that_differs_from_the_code_is_found(tmp_path: Path) -> None:
    generated = {"openapi.yaml": "a", "openapi-extensions.yaml": "b"}
    assert set(check_schema.DOCUMENTS) == set(generated)
    for changed in generated:
        for name, text in generated.items():
            (tmp_path / name).write_text("another" if name == changed else text)
        assert check_schema.differing(tmp_path, generated) == [changed]
