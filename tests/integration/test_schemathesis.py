"""The OpenAPI document against the live server: every answer is one that the document names."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from django.contrib.auth.models import User

from notifications.models import Notification
from relayer_service import extensions
from tests import check_schema, processes
from tests.api import WireApi
from tests.chain.encoded import SEPOLIA_CHAIN
from tests.chain.fee_node import FeeNode, serve
from tests.documents import parse
from tests.relayers import factories
from tests.relayers.factories import relayer
from tests.servers import PROJECT
from tokens.writes import issue

# On a slow machine, for all requests together.
MAX_SECONDS = 900
METHODS = {"get", "head", "post", "patch", "put", "delete", "options", "trace"}

# The limits of each field of a body are tried where something is created, not where it is changed, too; those of a
# signer in the contract's document.
# What is meant to be so in the extensions: nodes may not answer, and no worker runs; a body that is well formed can
# name what does not exist, or break a rule of the relayer; a cursor is that of a response; a notification or relayer
# whose id is like a path of the extension is found there; servers strip the spaces around a header, here the only
# thing that can be wrong with a request. A rule with several conditions is for whatever meets one of them.
RULES = """

[[operations]]
include-operation-id = [
  "create_signer", "update_relayer", "resume_relayers", "update_fee_token", "replace_transaction"
]
phases.coverage.enabled = false

# Deprecated: with it, the response is that of another operation.
[[operations]]
include-operation-id = ["send_transaction"]
parameters.dry_run = false

[[operations]]
include-path-regex = "/(balance|ready)$"
checks.not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]

[[operations]]
include-method = ["PATCH", "POST", "PUT"]
checks.positive_data_acceptance.enabled = false

[[operations]]
include-operation-id = ["list_deliveries", "list_transactions"]
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "/(deliveries(/{delivery_id})?|replay|test|pause|resume)$"
checks.allow_header_conformance.enabled = false
checks.unsupported_method.enabled = false

[[operations]]
include-path-regex = "/test$"
checks.negative_data_rejection.enabled = false
"""


@pytest.fixture
def document(wire: WireApi) -> dict[str, Any]:
    return parse(wire.get("/api/schema").text)


@pytest.fixture
def node() -> Iterator[FeeNode]:
    """A node of the network of the relayer that the document's examples call."""
    with serve(FeeNode(chain_id=SEPOLIA_CHAIN)) as served:
        yield served


def stated(port: int, token: str, folder: Path, examples: int, *options: str, rules: str = "") -> str:
    """Run schemathesis with all of its checks, but for what `rules` switch off; return what it prints."""
    Notification.objects.create(identifier="notification-1", url="https://example.com")
    # It leaves files, and so has a folder of its own. Without one that exists, all paths would be unknown.
    parameters = 'notification_id = "notification-1"\nrelayer_id = "relayer-1"\n'
    (folder / "schemathesis.toml").write_text(f"[parameters]\n{parameters}{rules}")
    command = [
        str(Path(sys.executable).with_name("st")),
        "--no-color",
        "run",
        f"http://127.0.0.1:{port}/api/schema",
        f"--header=Authorization: Bearer {token}",
        # With rules it has all checks too, but on the command line they would count more than the rules.
        *([] if rules else ["--checks=all"]),
        "--phases=examples,coverage,fuzzing",
        f"--max-examples={examples}",
        "--seed=1",
        "--continue-on-failure",
        "--generation-database=none",
        # A NUL inside a string is a bad request, which a JSON schema says only in a pattern that helps no reader.
        "--generation-allow-x00=false",
        *options,
    ]
    if shutil.which(command[0]) is None:
        pytest.skip("schemathesis is not installed")
    # The document is made once, and schemathesis waits for it no longer than ten seconds.
    urlopen(f"http://127.0.0.1:{port}/api/schema", timeout=MAX_SECONDS).close()
    env = os.environ | {"SCHEMATHESIS_HOOKS": "tests.integration.schemathesis_hooks", "PYTHONPATH": str(PROJECT)}
    finished = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=MAX_SECONDS)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "No issues found" in finished.stdout
    return finished.stdout


@pytest.mark.long
@pytest.mark.one_engine
def test_no_answer_is_undocumented(wire: WireApi, tmp_path: Path, node: FeeNode) -> None:
    relayer(policies={"gas_price_cap": 2**128 - 1}, rpc_urls=[{"url": node.url, "weight": 100}])
    output = stated(wire.port, wire.token, tmp_path, 30)
    assert "Operations:       7 selected / 7 total" in output
    assert "7 passed" in output
    # The document's example of a call is one that reaches the chain.
    assert node.count("eth_estimateGas") > 0


@pytest.mark.long
@pytest.mark.one_engine
def test_no_answer_of_the_extensions_is_undocumented(transactional_db: None, user: User, tmp_path: Path) -> None:
    factories.relayer(allow_signing=["messages", "typed_data"])
    token = issue(name="all", user=user, scopes=["read", "manage", "send", "sign"])[1]
    with processes.web(tmp_path / "log", EXTENSIONS=",".join(extensions.BUILT)) as port:
        # A stand-in of the tests, which echoes.
        options = ("--exclude-path=/api/v1/items/{identifier}/polish", "--warnings=off")
        output = stated(port, token, tmp_path, 5, *options, rules=RULES)
    assert "51 selected / 52 total" in output


def test_the_document_is_valid_openapi_3_1(wire: WireApi, document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    check_schema.validate(wire.get("/api/schema").text.decode())


def test_every_request_and_every_answer_has_an_example(document: dict[str, Any]) -> None:
    without = [name for name, body in media(document) if not body.get("examples")]
    assert without == []


def test_every_operation_names_the_answers_that_all_share(document: dict[str, Any]) -> None:
    answers = {f"{method} {path}": sorted(operation["responses"]) for path, method, operation in operations(document)}
    assert answers == {
        "get /api/v1/items": ["200", "400", "401", "405", "429", "500"],
        "post /api/v1/items": ["201", "400", "401", "405", "409", "429", "500"],
        "patch /api/v1/notifications/{notification_id}": ["200", "400", "401", "404", "405", "500"],
        "get /api/v1/relayers": ["200", "400", "401", "405", "429", "500"],
        "post /api/v1/relayers/{relayer_id}/rpc": ["200", "400", "401", "404", "405", "429", "500"],
        "get /api/v1/signers": ["200", "400", "401", "405", "500"],
        "post /api/v1/signers": ["201", "400", "401", "405", "409", "500"],
    }


def test_every_operation_needs_the_bearer_token(document: dict[str, Any]) -> None:
    assert all(operation["security"] == [{"bearer": []}] for _, _, operation in operations(document))
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"


def test_the_examples_of_success_are_what_the_server_answers(wire: WireApi, document: dict[str, Any]) -> None:
    item = document["paths"]["/api/v1/items"]
    request = only_example(item["post"]["requestBody"])
    assert wire.post("/api/v1/items", request).body == only_example(item["post"]["responses"]["201"])
    assert wire.get("/api/v1/items").body == only_example(item["get"]["responses"]["200"])


def test_the_example_of_a_notification_is_what_the_server_answers(wire: WireApi, document: dict[str, Any]) -> None:
    Notification.objects.create(identifier="notification-1", url="https://example.com")
    operation = document["paths"]["/api/v1/notifications/{notification_id}"]["patch"]
    requests = operation["requestBody"]["content"]["application/json"]["examples"]
    answer = wire.patch("/api/v1/notifications/notification-1", requests["Change"]["value"])
    assert (answer.status, answer.body) == (200, only_example(operation["responses"]["200"]))


def test_the_rules_of_the_signing_key_are_documented(document: dict[str, Any]) -> None:
    assert document["components"]["schemas"]["UpdateNotificationRequest"]["properties"]["signing_key"] == {
        "type": ["string", "null"],
        "writeOnly": True,
        "description": (
            "If absent or null, the key is unchanged; an empty string removes it; any other string replaces it. "
            "Never returned in a response."
        ),
    }


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def media(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return each body of the document with the name of its place."""
    found = []
    for path, method, operation in operations(document):
        parts = {"request": operation.get("requestBody", {})} | operation["responses"]
        for part, body in parts.items():
            found += [(f"{method} {path} {part}", content) for content in body.get("content", {}).values()]
    return found


def only_example(body: dict[str, Any]) -> Any:
    (example,) = body["content"]["application/json"]["examples"].values()
    return example["value"]
