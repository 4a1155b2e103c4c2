"""The methods that can be called."""

from __future__ import annotations

import pytest

from rpc.methods import METHODS, available_methods, find_method
from rpc.methods.base import Method
from rpc.methods.fee_estimate import FeeEstimate
from rpc.methods.fee_quote import FeeQuote


def test_every_method_is_known_by_its_network_type_and_name() -> None:
    assert {key: type(method) for key, method in METHODS.items()} == {
        ("evm", "feeEstimate"): FeeEstimate,
        ("evm", "feeQuote"): FeeQuote,
    }


def test_without_extensions_there_are_only_the_methods_of_the_contract() -> None:
    assert [method.name for method in available_methods()] == ["feeEstimate"]
    assert find_method("evm", "feeEstimate") is METHODS["evm", "feeEstimate"]


def test_a_method_says_what_it_does() -> None:
    class Nothing(Method):
        name = "nothing"

    with pytest.raises(TypeError, match="run"):
        Nothing()  # type: ignore[abstract]  # which is the point
