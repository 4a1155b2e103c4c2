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

pytestmark = pytest.mark.both_engines

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
def test_each_type_is_created_whole_and_listed_without_its_secrets(api: Api, signer_type: str) -> None:
    answer = api.post("/api/v1/signers", {"id": "signer-1", "type": signer_type, "config": CONFIGS[signer_type]})
    name = "local" if signer_type == "plain" else signer_type
    shown = {"id": "signer-1", "type": name, "config": SHOWN[signer_type]}
    assert (answer.status, answer.body) == (201, bodies.success(shown))
    listed = api.get("/api/v1/signers")
    assert (listed.status, listed.body) == (200, bodies.page([shown], total_items=1))
    assert Signer.objects.get().full_config() == CONFIGS[signer_type]


@pytest.mark.parametrize("signer_type", ["provider_c", "provider_c_transit"])
def test_mount_point_and_namespace_may_be_left_out(api: Api, signer_type: str) -> None:
    optional = {"mount_point", "namespace"}
    config = {name: value for name, value in CONFIGS[signer_type].items() if name not in optional}
    shown = {name: value for name, value in SHOWN[signer_type].items() if name not in optional}
    answer = api.post("/api/v1/signers", {"id": "s", "type": signer_type, "config": config})
    assert (answer.status, answer.body) == (201, bodies.success({"id": "s", "type": signer_type, "config": shown}))


def test_an_id_is_kept_to_the_byte_and_a_new_uuid_without_one(api: Api) -> None:
    given = [" padded ", "ID", "id", "é", "e\u0301", "a/b", "%2F", "日本", "x" * 255, "'\";--"]
    for identifier in given:
        answer = api.post("/api/v1/signers", signer(id=identifier))
        shown = {"id": identifier, "type": "local", "config": {}}
        assert (answer.status, answer.body) == (201, bodies.success(shown))
    for _ in range(2):
        assert api.post("/api/v1/signers", signer(id=...)).status == 201
    *kept, first, second = [row["id"] for row in api.get("/api/v1/signers?per_page=12").body["data"]]
    assert kept == given
    assert first != second
    assert all(UUID.fullmatch(identifier) for identifier in (first, second))


def test_another_id_is_a_bad_request(api: Api) -> None:
    for identifier, fault in (
        ("", "an empty string is not allowed here"),
        ("x" * 256, "at most 255 characters are allowed"),
        ("a\nb", "control characters are not allowed here"),
        ("\u0085", "control characters are not allowed here"),
        (None, "null is not allowed here"),
        *((value, "a string is required") for value in (1, True, ["a"])),
    ):
        answer = api.post("/api/v1/signers", signer(id=identifier))
        assert (answer.status, answer.body) == (400, bodies.bad_request(f"id: {fault}"))
    answer = api.post("/api/v1/signers", signer(id="a\u0000b"))
    assert answer.body["metadata"]["logs"][0]["message"] == "id: control characters are not allowed here"
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


def test_a_malformed_request_is_a_bad_request(api: Api) -> None:
    for body, fault in (
        (signer(type=...), "type: this field is required"),
        (signer(config=...), "config: this field is required"),
        (signer(type=None), "type: null is not allowed here"),
        (signer(config=None), "config: null is not allowed here"),
        *((signer(type=value), TYPES) for value in ("local", "PLAIN", "vault-style: provider_c", 1, ["plain"])),
        (signer(config=[]), "config: an object is required"),
        (signer(config="key"), "config: an object is required"),
        (signer(name="x"), "name: unknown field"),
        ([signer()], "an object is required"),
    ):
        answer = api.post("/api/v1/signers", body)
        assert (answer.status, answer.body) == (400, bodies.bad_request(fault))
    assert not Signer.objects.exists()


NOT_TEXT: list[Any] = [1, 1.5, True, ["text"], {}]
NOT_OBJECTS: list[Any] = ["text", 1, [], True]


@pytest.mark.parametrize("signer_type", CONFIGS)
def test_each_field_of_each_config_is_required_and_literal(api: Api, signer_type: str) -> None:
    good = CONFIGS[signer_type]
    for name, example in good.items():
        without = {key: value for key, value in good.items() if key != name}
        cases = [] if name in {"mount_point", "namespace"} else [(without, "this field is required")]
        cases.append((good | {name: None}, "null is not allowed here"))
        if isinstance(example, str):
            cases.append((good | {name: ""}, "an empty string is not allowed here"))
            cases += [(good | {name: value}, "a string is required") for value in NOT_TEXT]
        else:
            cases += [(good | {name: value}, "an object is required") for value in NOT_OBJECTS]
        for config, fault in cases:
            answer = api.post("/api/v1/signers", {"type": signer_type, "config": config})
            assert (answer.status, answer.body) == (400, bodies.bad_request(f"config.{name}: {fault}"))
    answer = api.post("/api/v1/signers", {"type": signer_type, "config": good | {"x": "y"}})
    assert (answer.status, answer.body) == (400, bodies.bad_request("config.x: unknown field"))
    for other, config in CONFIGS.items():
        if other != signer_type:
            answer = api.post("/api/v1/signers", {"type": signer_type, "config": config})
            assert (answer.status, answer.body["message"]) == (400, "Bad Request"), other
    assert not Signer.objects.exists()


def test_values_are_kept_to_the_byte_and_nested_configs_hold_any_json(api: Api) -> None:
    anything = {"a": [1, 2.5, None, True, {"b": "\u0000"}], "": 2**70}
    config: dict[str, Any] = {"key": anything, "service_account": {}}
    answer = api.post("/api/v1/signers", {"id": "s", "type": "provider_b_kms", "config": config})
    assert (answer.status, answer.body) == (201, bodies.success({"id": "s", "type": "provider_b_kms", "config": {}}))
    assert Signer.objects.get().full_config() == config
    config = {"key_id": " Ключ\t", "region": "e\u0301É "}
    answer = api.post("/api/v1/signers", {"id": "t", "type": "provider_a_kms", "config": config})
    assert answer.body == bodies.success({"id": "t", "type": "provider_a_kms", "config": config})


def test_signers_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    names = ["c", "a", "b"]
    for name in names:
        api.post("/api/v1/signers", signer(id=name))
    shown = [{"id": name, "type": "local", "config": {}} for name in names]
    assert api.get("/api/v1/signers").body == bodies.page(shown, total_items=3)
    assert api.get("/api/v1/signers?page=2&per_page=2").body == bodies.page(
        shown[2:], current_page=2, per_page=2, total_items=3
    )
    answer = api.get("/api/v1/signers?page=-1")
    assert (answer.status, answer.body) == (400, bodies.bad_request("page: a whole number of at least 0 is required"))


def test_both_need_a_token_and_other_methods_are_not_offered(api: Api) -> None:
    nobody = api.with_token("")
    for answer in (nobody.get("/api/v1/signers"), nobody.post("/api/v1/signers", signer())):
        assert (answer.status, answer.body) == (401, bodies.failure("Unauthorized"))
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = api(method, "/api/v1/signers")
        assert (answer.status, answer.body) == (405, bodies.failure("Method Not Allowed"))
        assert answer.headers["allow"] == "GET, HEAD, POST"
    assert not Signer.objects.exists()


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
