"""How much a body may hold: counted before it is parsed, and faults collected only as far as they are told."""

import json
from typing import Any

import pytest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from rest_framework.exceptions import ParseError

from relayer_service.api import serializers
from relayer_service.api.parsers import (
    MAX_DEPTH,
    MAX_VALUES,
    count_values,
    depth,
    loads,
    without_escapes,
    without_strings,
)
from tests.contract import bodies
from tests.sample.models import Item

TOO_MANY = "the body has more than 10000 JSON values"
TOO_DEEP = "the body is nested more than 64 levels deep"

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\[]{},: '))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)
)


def post(client: Client, token: str, body: bytes) -> Any:
    headers = {"Authorization": f"Bearer {token}"}
    return client.post("/api/v1/items", body, "application/json", headers=headers)


def true_count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return 1 + sum(map(true_count, inner))


def true_depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(true_depth, value.values() if isinstance(value, dict) else value), default=0)


@settings(max_examples=40)
@given(DOCUMENTS, st.booleans(), st.sampled_from([None, 1]))
def test_values_and_levels_are_counted_without_parsing(document: Any, escaped: bool, indent: int | None) -> None:
    body = json.dumps(document, ensure_ascii=escaped, indent=indent).encode()
    outline = without_strings(without_escapes(body))
    assert (count_values(outline), depth(outline)) == (true_count(document), true_depth(document))


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"1," * (MAX_VALUES - 2) + b"1]",
        b"[" + b"[]," * (MAX_VALUES - 2) + b"[ ]]",
        json.dumps({str(number): number for number in range(MAX_VALUES - 1)}).encode(),
        json.dumps([",[{" * MAX_VALUES, '\\"' * MAX_VALUES]).encode(),
        b"[" * MAX_DEPTH + b"]" * MAX_DEPTH,
        b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH,
        b'"' + b"[" * 1_000 + b'"',
    ],
    ids=lambda body: repr(body[:12]),
)
def test_a_body_of_the_most_values_or_levels_is_read(body: bytes) -> None:
    assert loads(body) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"[" + b"1," * (MAX_VALUES - 1) + b"1]", TOO_MANY),
        (b'["a", ' + b'"",' * 300_000 + b'""]', TOO_MANY),
        (json.dumps({str(number): number for number in range(MAX_VALUES)}).encode(), TOO_MANY),
        (b"[" * 100_000, TOO_MANY),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), TOO_DEEP),
        (b"[" * 930 + b"]" * 930, TOO_DEEP),
    ],
    ids=lambda value: repr(value[:12]),
)
def test_a_body_of_more_values_or_levels_is_refused_before_it_is_parsed(
    body: bytes, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "loads", lambda *args, **kwargs: pytest.fail("it was parsed"))
    with pytest.raises(ParseError) as refused:
        loads(body)
    assert str(refused.value.detail) == fault


def test_a_body_that_is_too_much_is_a_bad_request(client: Client, token: str) -> None:
    answer = post(client, token, b'{"id":"a","name":' + b"[" * 930 + b"]" * 930 + b"}")
    assert (answer.status_code, answer.json()) == (400, bodies.bad_request(TOO_DEEP))
    assert not Item.objects.exists()


def test_of_many_unknown_names_only_the_reported_ones_are_read(
    client: Client, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def look_at(name: str) -> str:
        looked_at.append(name)
        return name

    monkeypatch.setattr(serializers, "redact", look_at)
    members = ",".join(f'"name-{number}":1' for number in range(9_000))
    answer = post(client, token, b'{"id":"a","name":"b",%s}' % members.encode())
    told = [f"name-{number}" for number in range(50)]
    faults = bodies.bad_request(*[f"{name}: unknown field" for name in told])
    assert (answer.status_code, answer.json()) == (400, faults)
    assert looked_at == told
    # A long one is not repeated.
    name = f"https://user:{'hunter2' * 600}@example.com/"
    answer = post(client, token, json.dumps({"id": "a", "name": "b", name: 1}).encode())
    fault = "(a name of over 40 characters): unknown field"
    assert (answer.status_code, answer.json()) == (400, bodies.bad_request(fault))
