"""Calls of contracts, as a person writes them."""

from __future__ import annotations

import pytest
from eth_abi.abi import decode

from chain.abi import InvalidCall, encode_call

ADDRESS = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
NO_FUNCTION = "Enter a function with its parameter types, for example transfer(address,uint256)."
TRANSFER = f"a9059cbb{'0' * 24}{ADDRESS[2:].lower()}{5:064x}"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (" transfer ( address , uint256 ) ", f"\n {ADDRESS} \n\n 0x5 \n"),
        ("transfer(address,uint)", f'["{ADDRESS}", 5]'),
        ("transfer(address,uint256)", f'[\n"{ADDRESS.lower()}",\n"5"\n]'),
        ("function transfer(address to, uint256 amount) external returns (bool);", f"{ADDRESS}\n5"),
        ("transfer(address,uint256) public returns ((uint8,bool) a, bool b)", f"{ADDRESS}\n5"),
    ],
)
def test_a_call_is_encoded_however_it_is_written(function: str, arguments: str) -> None:
    assert encode_call(function, arguments).hex() == TRANSFER


@pytest.mark.parametrize(
    ("types", "arguments", "values"),
    [
        ("", "", ()),
        ("uint8", "255", (255,)),
        ("int8", "-128", (-128,)),
        ("bool,bool", "true\nFalse", (True, False)),
        ("bytes", "0x", (b"",)),
        ("bytes4", "0x01020304", (b"\1\2\3\4",)),
        ("string", "to be, or [not]", ("to be, or [not]",)),
        ("string", '"caf\\u00e9"', ("café",)),
        ("uint256[]", "[1, 2]", ((1, 2),)),
        ("uint256[],uint8", "[1, 2]\n3", ((1, 2), 3)),
        ("(address,bool)", f'["{ADDRESS}", true]', ((ADDRESS.lower(), True),)),
        ("(uint8,string)[]", '[[1, "a"], [2, "b"]]', (((1, "a"), (2, "b")),)),
    ],
)
def test_arguments_of_every_type_are_read(types: str, arguments: str, values: tuple[object, ...]) -> None:
    names = [types] if "(" in types else [each for each in types.split(",") if each]
    assert decode(names, encode_call(f"f({types})", arguments)[4:]) == values


def test_names_and_locations_of_parameters_are_left_out() -> None:
    short = encode_call("f((address,uint256)[],bytes)", f'[["{ADDRESS}", 1]]\n0x12')
    long = "f(tuple(address payable to, uint amount)[] calldata calls, bytes memory data) public payable"
    assert encode_call(long, f'[["{ADDRESS}", 1]]\n0x12') == short


@pytest.mark.parametrize(
    ("function", "arguments", "field", "text"),
    [
        ("transfer", "", "function", NO_FUNCTION),
        ("f(foo)", "1", "function", "Unknown parameter type 'foo'."),
        ("f(function)", "0x", "function", "Unknown parameter type 'function'."),
        ("f((uint8,)", "1", "function", "Unknown parameter type '(uint8,'."),
        ("f(uint8,)", "1", "function", "Unknown parameter type ''."),
        ("f(uint8)", "", "arguments", "The function takes 1 argument, one per line; 0 given."),
        ("f(uint8,bool)", "1", "arguments", "The function takes 2 arguments, one per line; 1 given."),
        ("f(uint8)", "256", "arguments", "Argument 1 (uint8): a number from 0 to 2^8 - 1 is required."),
        ("f(int8)", "128", "arguments", "Argument 1 (int8): a number from -2^7 to 2^7 - 1 is required."),
        ("f(uint256)", "1.5", "arguments", "Argument 1 (uint256): a whole number is required."),
        ("f(bool)", "1", "arguments", "Argument 1 (bool): true or false is required."),
        ("f(address)", "0x12", "arguments", "Argument 1 (address): an EVM address is required."),
        ("f(bytes4)", "0x01", "arguments", "Argument 1 (bytes4): 4 bytes are required."),
        (
            "f(bytes)", "0x1", "arguments",
            "Argument 1 (bytes): 0x and an even number of hexadecimal digits are required.",
        ),
        ("f()" + "returns()" * 60 + "!", "", "function", NO_FUNCTION),
        ("f(" + "uint8," * 200 + "uint8)", "", "function", NO_FUNCTION),
        ("f(string[])", "[1]", "arguments", "Argument 1 (string[]): text is required."),
        ("f(uint8[])", "1", "arguments", "Argument 1 (uint8[]): a JSON array is required."),
        ("f(uint8[2])", "[1]", "arguments", "Not valid for f(uint8[2])."),
        ("f((uint8,bool))", "[1]", "arguments", "Argument 1 ((uint8,bool)): an array of 2 values is required."),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_field(function: str, arguments: str, field: str, text: str) -> None:
    with pytest.raises(InvalidCall) as refused:
        encode_call(function, arguments)
    assert (refused.value.field, str(refused.value)) == (field, text)
