"""Sections 2.2, 4.1, 4.2 and 7: creating and listing signers."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from signers.models import Signer
from tests.api import Api, WireApi
from tests.contract import bodies
from tests.signers.examples import CONFIGS, SHOWN

ID_TAKEN = "Signer with this ID already exists"
TYPES = (
    "type: must be one of: plain, provider_a_kms, provider_b_kms, provider_c, provider_c_transit, "
    "provider_d, provider_e"
)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def signer(**changes: Any) -> dict[str, Any]:
    """A good request, with changes; a value of ... leaves a member out."""
    body = {"id": "signer-1", "type": "plain", "config": {"key": "a key"}} | changes
    return {name: value for name, value in body.items() if value is not ...}


@pytest.mark.parametrize("signer_type", CONFIGS)
def test_each_type_is_created_and_listed_without_its_secrets(api: Api, signer_type: str) -> None:
    answer = api.post("/api/v1/signers", {"id": "signer-1", "type": signer_type, "config": CONFIGS[signer_type]})
    shown = {
        "id": "signer-1",
        "type": "local" if signer_type == "plain" else signer_type,
        "config": SHOWN[signer_type],
    }
    assert (answer.status, answer.body) == (201, bodies.success(shown))
    listed = api.get("/api/v1/signers")
    assert (listed.status, listed.body) == (200, bodies.page([shown], total_items=1))


@pytest.mark.parametrize("signer_type", CONFIGS)
def test_each_config_is_kept_whole(api: Api, signer_type: str) -> None:
    api.post("/api/v1/signers", {"id": "signer-1", "type": signer_type, "config": CONFIGS[signer_type]})
    assert Signer.objects.get().full_config() == CONFIGS[signer_type]


@pytest.mark.parametrize("signer_type", ["provider_c", "provider_c_transit"])
def test_mount_point_and_namespace_may_be_left_out(api: Api, signer_type: str) -> None:
    optional = {"mount_point", "namespace"}
    config = {name: value for name, value in CONFIGS[signer_type].items() if name not in optional}
    shown = {name: value for name, value in SHOWN[signer_type].items() if name not in optional}
    answer = api.post("/api/v1/signers", {"id": "s", "type": signer_type, "config": config})
    assert (answer.status, answer.body) == (201, bodies.success({"id": "s", "type": signer_type, "config": shown}))


def test_an_id_that_is_left_out_is_a_new_uuid(api: Api) -> None:
    answers = [api.post("/api/v1/signers", signer(id=...)) for _ in range(2)]
    ids = [answer.body["data"]["id"] for answer in answers]
    assert [answer.status for answer in answers] == [201, 201]
    assert len(set(ids)) == 2
    assert all(UUID.fullmatch(identifier) for identifier in ids)


@pytest.mark.parametrize(
    "identifier", [" padded ", "ID", "id", "é", "e\u0301", "a/b", "%2F", "日本", "x" * 255, "'\";--"]
)
def test_an_id_is_kept_to_the_byte(api: Api, identifier: str) -> None:
    answer = api.post("/api/v1/signers", signer(id=identifier))
    assert (answer.status, answer.body["data"]["id"]) == (201, identifier)
    assert api.get("/api/v1/signers").body["data"][0]["id"] == identifier


@pytest.mark.parametrize(
    ("identifier", "fault"),
    [
        ("", "id: an empty string is not allowed here"),
        ("x" * 256, "id: at most 255 characters are allowed"),
        ("a\u0000b", "id: control characters are not allowed here"),
        ("a\nb", "id: control characters are not allowed here"),
        ("\u0085", "id: control characters are not allowed here"),
        (None, "id: null is not allowed here"),
        (1, "id: a string is required"),
        (True, "id: a string is required"),
        (["a"], "id: a string is required"),
    ],
)
def test_another_id_is_a_bad_request(api: Api, identifier: Any, fault: str) -> None:
    answer = api.post("/api/v1/signers", signer(id=identifier))
    assert answer.status == 400
    assert bodies.bad_request(fault)["metadata"]["logs"][0] in answer.body["metadata"]["logs"]
    assert not Signer.objects.exists()


@pytest.mark.parametrize("signer_type", [name for name in CONFIGS if SHOWN[name]])
def test_what_answers_give_back_of_a_config_has_at_most_2048_characters(api: Api, signer_type: str) -> None:
    for field in SHOWN[signer_type]:
        config = CONFIGS[signer_type] | {field: "x" * 2_049}
        answer = api.post("/api/v1/signers", signer(type=signer_type, config=config))
        fault = f"config.{field}: at most 2048 characters are allowed"
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))


@pytest.mark.django_db(transaction=True)
def test_a_taken_id_is_a_conflict_and_changes_nothing(api: Api) -> None:
    api.post("/api/v1/signers", signer(config={"key": "first"}))
    answer = api.post("/api/v1/signers", signer(config={"key": "second"}))
    assert (answer.status, answer.body) == (409, bodies.failure(ID_TAKEN))
    assert Signer.objects.get().full_config() == {"key": "first"}


def test_of_fifty_callers_that_race_for_an_id_one_wins(wire: WireApi) -> None:
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda n: wire.post("/api/v1/signers", signer(config={"key": f"key {n}"})), range(50)))
    assert sorted(answer.status for answer in answers) == [201] + [409] * 49
    assert all(answer.body == bodies.failure(ID_TAKEN) for answer in answers if answer.status == 409)
    assert Signer.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (signer(type=...), "type: this field is required"),
        (signer(config=...), "config: this field is required"),
        (signer(type=None), "type: null is not allowed here"),
        (signer(config=None), "config: null is not allowed here"),
        (signer(type="local"), TYPES),
        (signer(type="PLAIN"), TYPES),
        (signer(type="vault-style: provider_c"), TYPES),
        (signer(type=1), TYPES),
        (signer(type=["plain"]), TYPES),
        (signer(config=[]), "config: an object is required"),
        (signer(config="key"), "config: an object is required"),
        (signer(name="x"), "name: this field is not known"),
        ([signer()], "an object is required"),
    ],
)
def test_a_malformed_request_is_a_bad_request(api: Api, body: Any, fault: str) -> None:
    answer = api.post("/api/v1/signers", body)
    assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert not Signer.objects.exists()


STRINGS = [
    (signer_type, name)
    for signer_type, config in CONFIGS.items()
    for name, value in config.items()
    if isinstance(value, str)
]


@pytest.mark.parametrize(("signer_type", "name"), STRINGS)
def test_each_string_of_each_config_is_literal(api: Api, signer_type: str, name: str) -> None:
    faults: list[tuple[Any, str]] = [
        ("", "an empty string is not allowed here"),
        (1, "a string is required"),
        (1.5, "a string is required"),
        (True, "a string is required"),
        (None, "null is not allowed here"),
        (["text"], "a string is required"),
        ({}, "a string is required"),
    ]
    for value, fault in faults:
        answer = api.post("/api/v1/signers", {"type": signer_type, "config": CONFIGS[signer_type] | {name: value}})
        assert (answer.status, answer.body) == (400, bodies.bad_request(f"config.{name}: {fault}"))
    assert not Signer.objects.exists()


@pytest.mark.parametrize(
    ("signer_type", "name"),
    [(kind, name) for kind, config in CONFIGS.items() for name in config if name not in ("mount_point", "namespace")],
)
def test_each_field_of_each_config_is_required(api: Api, signer_type: str, name: str) -> None:
    config = {key: value for key, value in CONFIGS[signer_type].items() if key != name}
    answer = api.post("/api/v1/signers", {"type": signer_type, "config": config})
    assert (answer.status, answer.body) == (400, bodies.bad_request(f"config.{name}: this field is required"))


@pytest.mark.parametrize("signer_type", CONFIGS)
def test_a_field_that_a_config_does_not_have_is_refused(api: Api, signer_type: str) -> None:
    answer = api.post("/api/v1/signers", {"type": signer_type, "config": CONFIGS[signer_type] | {"x": "y"}})
    assert (answer.status, answer.body) == (400, bodies.bad_request("config.x: this field is not known"))


@pytest.mark.parametrize("signer_type", CONFIGS)
def test_the_config_of_another_type_is_refused(api: Api, signer_type: str) -> None:
    for other, config in CONFIGS.items():
        if other != signer_type:
            answer = api.post("/api/v1/signers", {"type": signer_type, "config": config})
            assert (answer.status, answer.body["message"]) == (400, "Bad Request"), other
    assert not Signer.objects.exists()


@pytest.mark.parametrize("value", ["text", 1, None, [], True])
@pytest.mark.parametrize("name", ["key", "service_account"])
def test_the_nested_configs_of_provider_b_are_objects(api: Api, name: str, value: Any) -> None:
    config = CONFIGS["provider_b_kms"] | {name: value}
    fault = "null is not allowed here" if value is None else "an object is required"
    answer = api.post("/api/v1/signers", {"type": "provider_b_kms", "config": config})
    assert (answer.status, answer.body) == (400, bodies.bad_request(f"config.{name}: {fault}"))


def test_the_nested_configs_of_provider_b_hold_any_json(api: Api) -> None:
    anything = {"a": [1, 2.5, None, True, {"b": "\u0000"}], "": 2**70}
    config = {"key": anything, "service_account": {}}
    answer = api.post("/api/v1/signers", {"id": "s", "type": "provider_b_kms", "config": config})
    assert (answer.status, answer.body) == (201, bodies.success({"id": "s", "type": "provider_b_kms", "config": {}}))
    assert Signer.objects.get().full_config() == config


def test_values_are_kept_to_the_byte(api: Api) -> None:
    config = {"key_id": " Ключ\t", "region": "e\u0301É "}
    answer = api.post("/api/v1/signers", {"id": "s", "type": "provider_a_kms", "config": config})
    assert answer.body == bodies.success({"id": "s", "type": "provider_a_kms", "config": config})


def test_signers_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    names = ["c", "a", "b"]
    for name in names:
        api.post("/api/v1/signers", signer(id=name))
    shown = [{"id": name, "type": "local", "config": {}} for name in names]
    assert api.get("/api/v1/signers").body == bodies.page(shown, total_items=3)
    assert api.get("/api/v1/signers?page=2&per_page=2").body == bodies.page(
        shown[2:], current_page=2, per_page=2, total_items=3
    )


def test_a_list_without_signers_is_empty(api: Api) -> None:
    assert api.get("/api/v1/signers/").body == bodies.page([], total_items=0)


@pytest.mark.parametrize("query", ["page=-1", "per_page=ten", "page=", "page=1&page=2"])
def test_a_bad_page_is_a_bad_request(api: Api, query: str) -> None:
    answer = api.get(f"/api/v1/signers?{query}")
    assert (answer.status, answer.body["message"]) == (400, "Bad Request")


@pytest.mark.parametrize(("method", "path"), [("GET", "/api/v1/signers"), ("POST", "/api/v1/signers")])
def test_both_need_a_token(api: Api, method: str, path: str) -> None:
    answer = api.with_token("")(method, path, None if method == "GET" else signer())
    assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    assert not Signer.objects.exists()


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_not_offered(api: Api, method: str) -> None:
    answer = api(method, "/api/v1/signers")
    assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
    assert answer.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("taken", "statements"),
    [(False, ["BEGIN", "INSERT", "INSERT", "COMMIT"]), (True, ["BEGIN", "INSERT", "ROLLBACK"])],
)
def test_a_creation_makes_as_many_statements_as_it_needs(api: Api, taken: bool, statements: list[str]) -> None:
    if taken:
        api.post("/api/v1/signers", signer(id="signer-1"))
    # A token that was verified a moment ago costs nothing.
    api.get("/api/v1/items")
    with CaptureQueriesContext(connection) as captured:
        api.post("/api/v1/signers", signer(id="signer-1"))
    # PostgreSQL inserts the signer and its audit entry in one.
    expected = ["WITH"] if connection.vendor == "postgresql" else statements
    assert [query["sql"].split()[0] for query in captured] == expected
