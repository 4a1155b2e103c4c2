"""Typed data (EIP-712): the vectors of the EIP, eth-account as an oracle, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.messages import message_digest
from chain.typed_data import DOMAIN, InvalidTypedData, Schema, parse
from tests.chain.encoded import KEY

BOB = "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"
DOMAIN_TYPE = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
    {"name": "verifyingContract", "type": "address"},
]
# The example of the EIP.
MAIL: dict[str, Any] = {
    "types": {
        DOMAIN: DOMAIN_TYPE,
        "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
        "Mail": [
            {"name": "from", "type": "Person"},
            {"name": "to", "type": "Person"},
            {"name": "contents", "type": "string"},
        ],
    },
    "primary_type": "Mail",
    "domain": {
        "name": "Ether Mail",
        "version": "1",
        "chainId": 1,
        "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC",
    },
    "message": {
        "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
        "to": {"name": "Bob", "wallet": BOB},
        "contents": "Hello, Bob!",
    },
}
DIGEST = "be609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2"


def oracle(data: dict[str, Any]) -> bytes:
    """Return the digest by eth-account."""
    named = {"primaryType" if name == "primary_type" else name: value for name, value in data.items()}
    encoded = encode_typed_data(full_message=named)
    return keccak(b"\x19" + encoded.version + encoded.header + encoded.body)


def of_one_field(kind: str, value: Any, **types: Any) -> dict[str, Any]:
    return {
        "types": {"Data": [{"name": "field", "type": kind}], **types},
        "primary_type": "Data",
        "domain": {"name": "Tests"},
        "message": {"field": value},
    }


def faults(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the faults with their paths, in JavaScript's notation."""
    with pytest.raises(InvalidTypedData) as raised:
        parse(**data)
    return [
        ("".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path)[1:], text)
        for path, text in raised.value.faults
    ]


def changed(**changes: Any) -> dict[str, Any]:
    """Return the example of the EIP with changes, by the path of each with underscores."""
    data = deepcopy(MAIL)
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = data
        for name in parents:
            node = node[name]
        if value is None:
            del node[last]
        else:
            node[last] = value
    return data


def test_the_example_of_the_eip() -> None:
    data = parse(**MAIL)
    schema = Schema(data.types)
    assert schema.encode_type("Mail") == (
        "Mail(Person from,Person to,string contents)Person(string name,address wallet)"
    )
    assert schema.type_hash("Mail").hex() == "a0cedeb2dc280ba39b857546d74f5549c3a1d7bdc2dd96bf881f76108e23dac2"
    assert data.message_hash.hex() == "c52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e"
    assert data.domain_separator.hex() == "f2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f"
    assert (data.digest.hex(), data.chain_id) == (DIGEST, 1)
    signed = Account.unsafe_sign_hash(data.digest, keccak(text="cow"))
    assert (signed.v, f"{signed.r:064x}", f"{signed.s:064x}") == (
        28,
        "4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d",
        "07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b91562",
    )


@pytest.mark.parametrize("omitted", ["types__EIP712Domain", "primary_type"])
def test_the_type_of_the_domain_and_the_primary_type_can_be_omitted(omitted: str) -> None:
    assert parse(**changed(**{omitted: None})).digest.hex() == DIGEST


def test_it_is_returned_with_canonical_values_under_the_names_of_the_eip() -> None:
    address = BOB.lower()
    kinds = {"amount": "uint256", "more": "int8", "whom": "address", "data": "bytes", "list": "uint8[2][]"}
    values = {"amount": "0x10", "more": "-7", "whom": address, "data": "0xABcd", "list": [["1", 2]]}
    types = {"Data": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    domain = {"chainId": "0x1", "verifyingContract": address}
    assert parse(types=types, domain=domain, message=values).as_json() == {
        "types": types | {DOMAIN: DOMAIN_TYPE[2:]},
        "primaryType": "Data",
        "domain": {"chainId": 1, "verifyingContract": BOB},
        "message": {"amount": 16, "more": -7, "whom": BOB, "data": "0xabcd", "list": [[1, 2]]},
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", "Grüße \0 👋"),
        ("bytes", "0x"),
        ("bytes1", "0xff"),
        ("bytes32", "0x" + "ef" * 32),
        ("bool", False),
        ("address", BOB),
        ("uint256", 2**256 - 1),
        ("int8", -128),
        ("int256", -(2**255)),
        ("uint8[]", []),
        ("bytes[][2]", [["0x01"], []]),
        ("address[][][]", [[[BOB], []], []]),
    ],
)
def test_every_kind_of_value_is_encoded_as_eth_account_does(kind: str, value: Any) -> None:
    data = of_one_field(kind, value)
    assert parse(**data).digest == oracle(data | {"types": data["types"] | {DOMAIN: DOMAIN_TYPE[:1]}})


def test_lists_of_structs_and_recursive_structs_are_encoded_as_eth_account_does() -> None:
    node = [{"name": "name", "type": "string"}, {"name": "children", "type": "Node[]"}]
    leaf: dict[str, Any] = {"name": "leaf", "children": []}
    tree = {"name": "root", "children": [leaf, {"name": "branch", "children": [leaf, leaf]}]}
    data = of_one_field("Node[2]", [tree, leaf], Node=node)
    assert parse(**data).digest == oracle(data | {"types": data["types"] | {DOMAIN: DOMAIN_TYPE[:1]}})


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "bytes": st.binary(max_size=70).map(lambda content: f"0x{content.hex()}"),
    "bytes4": st.binary(min_size=4, max_size=4).map(lambda content: f"0x{content.hex()}"),
    "bool": st.booleans(),
    "address": st.binary(min_size=20, max_size=20).map(lambda content: f"0x{content.hex()}"),
    "uint96": st.integers(0, 2**96 - 1),
    "int24": st.integers(-(2**23), 2**23 - 1),
    "uint256": st.integers(0, 2**256 - 1),
}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return typed data whose structs contain earlier ones, with values that fit."""
    types: dict[str, Any] = {}
    values = dict(VALUES)
    last = ""
    for name in draw(st.permutations(["Zebra", "Apple", "Melon"])):
        bases = [*draw(st.lists(st.sampled_from(sorted(values)), max_size=3)), last or "string"]
        kinds = [f"{base}{draw(st.sampled_from(['', '[]', '[2]', '[2][]']))}" for base in bases]
        types[name] = [{"name": f"f{index}", "type": kind} for index, kind in enumerate(kinds)]
        of_fields = {f"f{index}": of_kind(kind, values) for index, kind in enumerate(kinds)}
        values[name] = st.fixed_dictionaries(of_fields)
        last = name
    domain = draw(st.fixed_dictionaries({"name": values["string"], "chainId": values["uint256"]}))
    types[DOMAIN] = [DOMAIN_TYPE[0], DOMAIN_TYPE[2]]
    return {"types": types, "primary_type": last, "domain": domain, "message": draw(values[last])}


def of_kind(kind: str, values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    if kind.endswith("[2]"):
        return st.lists(of_kind(kind.removesuffix("[2]"), values), min_size=2, max_size=2)
    if kind.endswith("[]"):
        return st.lists(of_kind(kind.removesuffix("[]"), values), max_size=3)
    return values[kind]


@settings(max_examples=40)
@given(documents())
def test_any_document_has_the_digest_of_eth_account(data: dict[str, Any]) -> None:
    assert parse(**data).digest == oracle(data)


INTEGER = "a whole number in the range of {} is required, or a string with one"
HEX = "{} required, in hexadecimal with 0x"
ADDRESS = "an EVM address is required: 0x and 40 hexadecimal digits"


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        *(("uint8", value, INTEGER.format("uint8")) for value in (256, -1)),
        *(("int8", value, INTEGER.format("int8")) for value in (128, -129)),
        *(
            ("uint256", value, INTEGER.format("uint256"))
            for value in (2**256, "1" * 79, True, 1.0, "1e3", "", "0x", " 1", "1_0", "٣", "01", None)
        ),
        ("bool", 1, "true or false is required"),
        ("string", 1, "a string is required"),
        ("bytes", "ab", HEX.format("bytes are")),
        ("bytes", [1, 2], HEX.format("bytes are")),
        ("bytes1", "0x", HEX.format("1 byte is")),
        ("bytes4", "0x" + "00" * 5, HEX.format("4 bytes are")),
        ("address", "0x" + "00" * 32, ADDRESS),
        ("address", BOB[2:], ADDRESS),
        ("address", BOB.replace("bB", "Bb", 1), "invalid checksum: a character of this address is mistyped"),
        ("uint8[]", 1, "a list is required"),
        ("uint8[2]", [1], "a list of 2 values is required"),
        ("uint8[2]", [1, 2, 3], "a list of 2 values is required"),
        ("Data", None, "an object is required"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_refused(kind: str, value: Any, fault: str) -> None:
    assert faults(of_one_field(kind, value)) == [("message.field", fault)]


def test_a_fault_in_a_list_has_its_index() -> None:
    expected = [("message.field[1][0]", INTEGER.format("uint8")), ("message.field[2]", "a list is required")]
    assert faults(of_one_field("uint8[][]", [[1], [256], 3])) == expected


@pytest.mark.parametrize(
    "kind",
    [
        *("uint", "uint264", "uint08", "bytes33", "fixed128x18", "byte", "uint8[", "uint8[0]", "uint8[-1]", "[]"),
        *("uint8 ", "Data()", "uint8[][999999]", "Dätä", "uint8" + "[]" * 25, "x" * 65, None, ["uint8"]),
    ],
)
def test_a_type_that_is_none_is_refused(kind: Any) -> None:
    ((path, text),) = faults(of_one_field(kind, 1))
    assert path == "types.Data[0].type"
    assert text in {"is not a valid type", "is neither a built-in type nor one of the types"}


@pytest.mark.parametrize("name", ["uint", "bytes33", "address", "bool", "string", "Per son", "", "P" * 65])
def test_a_struct_cannot_have_the_name_of_a_type_or_any_text(name: str) -> None:
    data = of_one_field("uint8", 1, **{name: [{"name": "a", "type": "uint8"}]})
    assert faults(data) == [(f"types.{name}", "is not a valid name of a struct")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"message__contents": None}, [("message.contents", "this field is required")]),
        ({"message__to__wallet": None}, [("message.to.wallet", "this field is required")]),
        ({"message__cc": "Eve"}, [("message.cc", "unknown field")]),
        ({"message__to__name": 1, "message__from__age": 2},
         [("message.from.age", "unknown field"), ("message.to.name", "a string is required")]),
        ({"domain": "mail"}, [("domain", "an object is required")]),
        ({"types": []}, [("types", "an object is required")]),
        ({"domain__chainId": None}, [("domain.chainId", "this field is required")]),
        ({"domain": {}, "types__EIP712Domain": None},
         [("domain",
           "at least one of these fields is required: name, version, chainId, verifyingContract, salt")]),
        ({"domain": {"name": "a", "owner": "b"}, "types__EIP712Domain": None}, [("domain.owner", "unknown field")]),
        ({"primary_type": DOMAIN}, [("primary_type", "must be one of the types, other than EIP712Domain")]),
        ({"primary_type": None, "types__Letter": []},
         [("primary_type", "this field is required: the types do not determine it")]),
        ({"types__Person": {"name": "string"}}, [("types.Person", "a list of fields is required")]),
        ({"types__Person": [{"name": "a", "type": "uint8", "value": 1}]},
         [("types.Person[0]", "an object with name and type is required")]),
        ({"types__Person": [{"name": "a", "type": "uint8"}, {"name": "a", "type": "uint8"}]},
         [("types.Person[1].name", "is given more than once")]),
        ({"types__Person": [{"name": "a b", "type": "uint8"}]}, [("types.Person[0].name", "is not a valid name")]),
        ({"types__Mail": [{"name": "from", "type": "Persona"}]},
         [("types.Mail[0].type", "is neither a built-in type nor one of the types")]),
        ({"types__Person": [{"name": f"a{index}", "type": "uint8"} for index in range(65)]},
         [("types.Person", "at most 64 fields are allowed")]),
        ({"types": {f"T{index}": [] for index in range(33)}}, [("types", "at most 32 types are allowed")]),
    ],
)  # fmt: skip
def test_a_document_that_is_not_complete_and_exact_is_refused(
    changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert faults(changed(**changes)) == expected


@pytest.mark.parametrize(
    "fields",
    [[{"name": "chainId", "type": "string"}], [{"name": "owner", "type": "address"}], DOMAIN_TYPE[::-1]],
    ids=["a type", "a field", "an order"],
)
def test_the_domain_has_the_fields_of_the_eip_as_they_are_there(fields: list[dict[str, str]]) -> None:
    ((path, text),) = faults(changed(types__EIP712Domain=fields))
    listed = "string name, string version, uint256 chainId, address verifyingContract, bytes32 salt"
    assert (path, text) == ("types.EIP712Domain", f"can have only these fields, in this order: {listed}")


def test_a_struct_that_contains_itself_has_no_end_and_is_refused() -> None:
    message: dict[str, Any] = {}
    message["next"] = message
    node = {"Node": [{"name": "next", "type": "Node"}]}
    ((path, text),) = faults({"types": node, "primary_type": "Node", "domain": {"name": "a"}, "message": message})
    assert (path, text) == (".".join(["message", *["next"] * 32]), "at most 32 levels are allowed")


def test_not_more_than_fifty_faults_are_returned() -> None:
    assert len(faults(of_one_field("uint8[]", ["x"] * 1_000))) == 50


@given(st.binary(max_size=70))
def test_a_message_has_the_digest_of_eth_account(message: bytes) -> None:
    signed = Account.sign_message(encode_defunct(message), KEY)
    assert message_digest(message) == signed.message_hash
