"""The OpenAPI documents: what generators, linters and readers need of them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.test import Client
from packaging.version import Version

from notifications.events import all_events
from relayer_service import __version__
from signers.backends.base import Secp256k1Backend
from signers.models import Signer
from signers.signing import backend_for
from tests.api import Api
from tests.check_schema import DOCUMENTS
from tests.documents import EXTENSIONS, read_document
from transactions.records.representation import TransactionData

TIME = re.compile(r"\d{4}-\d\d-\d\dT.*Z")
VENDORS = re.compile(r"vault|aws|amazon|google|gserviceaccount|turnkey|coinbase|hashicorp", re.IGNORECASE)


@pytest.fixture(scope="module", params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read_document(request.param)


@pytest.fixture(scope="module")
def extended() -> dict[str, Any]:
    return read_document(EXTENSIONS)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for section in ("paths", "webhooks"):
        for path, methods in document.get(section, {}).items():
            for method, operation in methods.items():
                yield f"{method} {path}", operation


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from nodes(child)


def test_the_document_has_a_version_contact_and_no_product_names(document: dict[str, Any]) -> None:
    assert str(Version(document["info"]["version"])) == __version__
    assert document["info"]["contact"]["name"]
    assert VENDORS.findall(json.dumps(document)) == []
    # As OpenAPI Generator can read it: `type: "null"` makes it fail.
    assert document["components"]["schemas"]["Error"]["properties"]["data"] == {"const": None}


def test_every_operation_has_one_described_tag_and_json_bodies(document: dict[str, Any]) -> None:
    described = {tag["name"] for tag in document["tags"] if tag.get("description")}
    found = {name: operation["tags"] for name, operation in operations(document)}
    assert {name: tags for name, tags in found.items() if len(tags) != 1 or tags[0] not in described} == {}
    bodies = [operation["requestBody"] for _, operation in operations(document) if operation.get("requestBody")]
    assert {tuple(body["content"]) for body in bodies} == {("application/json",)}


def test_every_time_has_its_format_and_that_of_an_answer_microseconds(document: dict[str, Any]) -> None:
    """Compare what the examples show, as a name does not tell."""

    def is_time(value: Any) -> bool:
        return isinstance(value, str) and bool(TIME.fullmatch(value))

    times = {name for node in nodes(document) for name, value in node.items() if is_time(value)}
    fields = [(name, field) for node in nodes(document) for name, field in node.get("properties", {}).items()]
    formats = {(name, field.get("format")) for name, field in fields if name in times and "$ref" not in field}
    assert {name for name, found in formats if found != "date-time"} == set()
    assert times or "webhooks" not in document
    answers = [node["responses"] for node in nodes(document) if "responses" in node]
    shown = [value for node in nodes(answers) for value in node.values() if is_time(value)]
    assert [time for time in shown if not re.fullmatch(r".*T\d\d:\d\d:\d\d\.\d{6}Z", time)] == []


def test_every_event_is_a_webhook_with_its_payload(extended: dict[str, Any]) -> None:
    assert sorted(extended["webhooks"]) == sorted(all_events())
    headers = ("WebhookId", "WebhookTimestamp", "WebhookSignature")
    assert extended["webhooks"]["notification.failing"] == {
        "post": {
            "operationId": "on_notification_failing",
            "summary": "Deliveries to another webhook have started to fail",
            "description": "Deliveries to another webhook have started to fail.",
            "tags": ["Webhooks"],
            "security": [],
            "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in headers],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/NotificationFailingEvent"}}},
            },
            "responses": {
                "200": {
                    "description": "The event was received, as with any other 2xx status. Others are retried, except "
                    "410."
                },
                "410": {"description": "No more events are sent to the webhook."},
            },
            "x-extension": "lifecycle",
            "x-internal": True,
        }
    }
    schemas = extended["components"]["schemas"]
    assert schemas["NotificationFailingEvent"] == {
        "type": "object",
        "properties": {
            "type": {"type": "string", "const": "notification.failing"},
            "timestamp": {"type": "string", "format": "date-time", "description": "When the event occurred."},
            "data": {"$ref": "#/components/schemas/NotificationFailingData"},
        },
        "required": ["type", "timestamp", "data"],
        "x-extension": "lifecycle",
    }
    assert schemas["NotificationFailingData"] == {
        "type": "object",
        "properties": {
            "notification_id": {"type": "string"},
            "failing_since": {"type": "string", "format": "date-time"},
            "error": {"type": "string"},
        },
        "required": ["notification_id", "failing_since", "error"],
        "x-extension": "lifecycle",
    }
    assert schemas["RefusalData"]["properties"]["selector"] == {"type": ["string", "null"]}
    # The payload of a transaction is that of the API.
    assert schemas["TransactionMinedEvent"]["properties"]["data"] == {"$ref": "#/components/schemas/Transaction"}
    assert set(schemas["Transaction"]["properties"]) == set(TransactionData.__annotations__)
    parameters = extended["components"]["parameters"]
    assert {parameters[name]["name"]: parameters[name].get("required", False) for name in headers} == {
        "webhook-id": True,
        "webhook-timestamp": True,
        "webhook-signature": False,
    }


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/json", "application/json"),
        ("application/yaml", "application/yaml; charset=utf-8"),
        ("image/png", "application/vnd.oai.openapi; charset=utf-8"),
    ],
)
def test_a_client_chooses_the_format(client: Client, accept: str, content_type: str) -> None:
    answer = client.get("/api/schema", headers={"Accept": accept})
    assert answer["Content-Type"] == content_type
    # JSON is YAML too.
    assert yaml.load(answer.content, Loader=yaml.CSafeLoader)["info"]["title"] == "Relayer Management Service"
    assert answer.content.startswith(b"{") == content_type.endswith("json")


def test_health_paths_are_in_the_document_of_the_extensions(extended: dict[str, Any]) -> None:
    for path in ("/api/v1/health", "/api/v1/ready"):
        operation = extended["paths"][path]["get"]
        assert (operation["security"], operation["x-extension"]) == ([], "lifecycle")
        assert path not in read_document()["paths"]


def test_bodies_that_are_always_refused_are_not_valid(extended: dict[str, Any]) -> None:
    schemas = extended["components"]["schemas"]
    message, webhook = schemas["SignMessageRequest"], schemas["CreateNotificationRequest"]
    assert (*message["properties"], message["minProperties"], message["maxProperties"]) == (
        "message",
        "message_hex",
        1,
        1,
    )
    events = webhook["properties"]["events"]
    assert (events["minItems"], events["items"]) == (1, {"type": "string", "minLength": 1})


@pytest.mark.django_db
def test_the_first_example_of_a_signer_creates_one_that_works(api: Api) -> None:
    operation = read_document()["paths"]["/api/v1/signers"]["post"]
    example = next(iter(operation["requestBody"]["content"]["application/json"]["examples"].values()))
    answer = api.post("/api/v1/signers", example["value"])
    assert (answer.status, answer.body["data"]) == (201, {"id": "plain-1", "type": "local", "config": {}})
    backend = backend_for(Signer.objects.get())
    assert isinstance(backend, Secp256k1Backend)
    assert backend.address() == "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
