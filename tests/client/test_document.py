"""The client against openapi-extensions.yaml: every operation has a method, with its fields and its result."""

from __future__ import annotations

import dataclasses
import inspect
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from relayer_client import AsyncClient, AsyncPages, AsyncRelayer, Client, Relayer
from relayer_client.encoding import decode
from relayer_client.fees import FeeEstimate, FeeQuote
from relayer_client.fields import DeliveryJobFilter, RelayerJobFilter
from relayer_client.results import Transaction
from tests.client.examples import TRANSACTION
from tests.documents import EXTENSIONS, read_document

Schema = dict[str, Any]
# Parameters that iterating over pages sets.
OF_PAGES = {"page", "cursor"}
# Headers that the client sends by itself, or does not.
KEY = "Idempotency-Key"
# Required fields that have a default here.
DEFAULTS = {"value", "network_type", "paused"}
# Operations whose methods have a shorter name.
SHORT = {
    "send_transaction": "send",
    "dry_run_transaction": "dry_run",
    "cancel_transaction": "cancel",
    "cancel_transactions": "cancel_all",
    "replace_transaction": "replace",
    "speed_up_transaction": "speed_up",
    "call_method": "rpc",
    "get_relayer_status": "status",
    "get_relayer_balance": "balance",
    "get_health": "health",
    "get_readiness": "readiness",
}
# Results that are no object of the document: a message or a state.
PLAIN = {NoneType, bool, Any}


@cache
def operations() -> dict[str, Schema]:
    paths = read_document(EXTENSIONS)["paths"].values()
    return {one["operationId"]: one for path in paths for name, one in path.items() if name != "parameters"}


def methods(*classes: type) -> dict[str, Any]:
    """Return the methods of the client, by the operation that they call."""
    known = {name: method for kind in classes for name, method in vars(kind).items()}
    found = {name: known.get(SHORT.get(name, name)) for name in operations()}
    return {name: method for name, method in found.items() if method}


METHODS = methods(AsyncClient, AsyncRelayer)
CASES = sorted(METHODS.items())


def resolve(schema: Schema) -> Schema:
    """Return a schema without references, and of alternatives the one that is not null."""
    while True:
        if "$ref" in schema:
            schema = read_document(EXTENSIONS)["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif alternatives := schema.get("oneOf") or schema.get("anyOf"):
            kept = [each for each in alternatives if not is_null(each)]
            if len(kept) > 1:
                return schema
            schema = kept[0]
        elif "allOf" in schema:
            (schema,) = schema["allOf"]
        else:
            return schema


def is_null(schema: Schema) -> bool:
    schema = (
        schema
        if "$ref" not in schema
        else read_document(EXTENSIONS)["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    )
    return schema.get("type") == "null" or schema.get("enum") == [None]


def allows_null(schema: Schema) -> bool:
    types = schema.get("type")
    alternatives = schema.get("oneOf") or schema.get("anyOf") or []
    return (isinstance(types, list) and "null" in types) or any(is_null(each) for each in alternatives)


def results(operation_id: str) -> list[Schema]:
    """Return the schemas of what an operation answers: of the `data` in an envelope."""
    found = []
    for status, response in operations()[operation_id]["responses"].items():
        if status.startswith("2"):
            schema = resolve(response["content"]["application/json"]["schema"])
            data = schema["properties"].get("data", schema)
            data = resolve(data)
            found += [resolve(each) for each in data.get("oneOf", [data])]
    return found


def differences(kind: Any, schema: Schema, where: str) -> list[str]:
    """Return where a type of the client and a schema differ."""
    schema = resolve(schema)
    if kind is Any or "oneOf" in schema or "anyOf" in schema:
        return []
    if dataclasses.is_dataclass(kind):
        return object_differences(kind, schema, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return differences(arguments[0], schema["items"], f"{where}[]")
    if origin is Literal:
        expected = schema.get("enum") or [schema.get("const")]
        return [] if set(arguments) == set(expected) else [f"{where}: {arguments} is not {expected}"]
    types = schema.get("type")
    names = {types} if isinstance(types, str) else set(types or ())
    accepted = {
        str: {"string"},
        int: {"integer", "string"},
        bool: {"boolean"},
        Decimal: {"string"},
        datetime: {"string"},
        dict: {"object"},
    }[origin or kind]
    is_time = schema.get("format") == "date-time"
    if not names - {"null"} <= accepted or is_time != (kind is datetime):
        return [f"{where}: {kind} is not {schema}"]
    return []


def object_differences(kind: Any, schema: Schema, where: str) -> list[str]:
    hints, properties = get_type_hints(kind), schema["properties"]
    names = {field.metadata.get("name", field.name): field.name for field in dataclasses.fields(kind)}
    found = [f"{where}.{name}: only on one side" for name in set(names) ^ set(properties)]
    for name in set(names) & set(properties):
        hint, part = hints[names[name]], properties[name]
        is_optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
        if is_optional != (name not in schema.get("required", ()) or allows_null(part)):
            found.append(f"{where}.{name}: may be None on one side only")
        (inner,) = [each for each in get_args(hint) if each is not NoneType] if is_optional else [hint]
        found += differences(inner, part, f"{where}.{name}")
    return found


def test_every_operation_that_can_succeed_has_a_method() -> None:
    possible = {name for name, one in operations().items() if any(status < "3" for status in one["responses"])}
    assert set(METHODS) == possible
    assert set(operations()) - possible == {"update_signer", "sign_transaction"}


def test_both_forms_of_the_client_have_the_same_methods() -> None:
    assert METHODS.keys() == methods(Client, Relayer).keys()


def test_a_method_has_the_parameters_of_its_operation() -> None:
    for operation_id, method in CASES:
        declared = operations()[operation_id].get("parameters", [])
        signature = inspect.signature(method).parameters
        wanted = {one["name"] for one in declared if one["in"] == "query"} - OF_PAGES - {"dry_run"}
        keywords = {name for name, one in signature.items() if one.kind is one.KEYWORD_ONLY}
        if "filters" in signature:
            (filters,) = get_args(get_type_hints(method)["filters"])
            keywords |= set(get_type_hints(filters))
            assert keywords == wanted | {"per_page"}, method
        assert wanted <= keywords, method
        has_key = KEY in {one["name"] for one in declared} and method.__name__ != "dry_run"
        has_key = has_key or "idempotency_key" in wanted
        assert (method, "idempotency_key" in keywords) == (method, has_key)


def test_a_method_accepts_the_fields_of_the_body() -> None:
    for operation_id, method in CASES:
        body = operations()[operation_id].get("requestBody")
        signature = inspect.signature(method).parameters
        if not body:
            assert "fields" not in signature, method
            continue
        schema = resolve(body["content"]["application/json"]["schema"])
        schemas = [resolve(each) for each in schema.get("oneOf", [schema])]
        wanted = {name for each in schemas for name in each["properties"]}
        if "fields" not in signature:
            # The message of a signature is one parameter, text or bytes.
            assert wanted <= {*signature, "jsonrpc", "id", "message_hex"}, method
            continue
        (fields,) = get_args(get_type_hints(method)["fields"])
        required = {name for each in schemas for name in each.get("required", ())}
        assert (method, set(get_type_hints(fields))) == (method, wanted)
        assert (method, required - DEFAULTS) == (method, set(fields.__required_keys__))


def test_a_filter_of_a_list_can_be_none() -> None:
    for method in METHODS.values():
        for filters in get_args(get_type_hints(method).get("filters")):
            assert all(NoneType in get_args(hint) for hint in get_type_hints(filters).values()), method


@pytest.mark.parametrize("kind", [RelayerJobFilter, DeliveryJobFilter])
def test_a_filter_of_a_job_has_no_null(kind: Any) -> None:
    assert not [name for name, hint in get_type_hints(kind).items() if NoneType in get_args(hint)]


def test_a_method_returns_what_the_document_says() -> None:
    for operation_id, method in CASES:
        kind, schemas = get_type_hints(method)["return"], results(operation_id)
        if get_origin(kind) is AsyncPages:
            (kind,) = get_args(kind)
            schemas = [each["items"] for each in schemas]
        if kind not in PLAIN:
            found = [differences(kind, schema, kind.__name__) for schema in schemas]
            assert [] in found, (method, found)


@pytest.mark.parametrize(("kind", "name"), [(FeeEstimate, "FeeEstimateResult"), (FeeQuote, "FeeQuoteResult")])
def test_fees_are_what_the_document_says(kind: Any, name: str) -> None:
    assert differences(kind, read_document(EXTENSIONS)["components"]["schemas"][name], name) == []


def test_a_difference_is_found() -> None:
    schema = {"properties": {"balance": {"type": "boolean"}, "new": {"type": "string"}}, "required": ["balance"]}
    from relayer_client.results import Balance

    assert sorted(differences(Balance, schema, "Balance")) == [
        "Balance.balance: <class 'int'> is not {'type': 'boolean'}",
        "Balance.new: only on one side",
        "Balance.unit: only on one side",
    ]


def test_data_that_a_list_omits_is_not_taken_for_none() -> None:
    older = {name: value for name, value in TRANSACTION.items() if name != "data_size"}
    for body, is_omitted in (
        (TRANSACTION | {"data_size": 1_025}, True),
        (TRANSACTION | {"data_size": 0}, False),
        (TRANSACTION | {"data": "0x01", "data_size": 1}, False),
        # A service without sizes of data omits none.
        (older, False),
    ):
        assert decode(Transaction, body).is_data_omitted is is_omitted
