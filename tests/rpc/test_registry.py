"""The methods that can be called: a file in `rpc/methods` is all that one needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relayers.models import Relayer
from rpc import methods, registry
from rpc.methods.fee_estimate import FeeEstimate, FeeEstimateParams, FeeEstimateResult

PING = """
from relayer_service.api.serializers import StrictSerializer, StringField
from rpc.registry import Method, register


class PingParams(StrictSerializer):
    word = StringField()


@register
class Ping(Method):
    name = "ping"
    network_type = "evm"
    params_class = PingParams
    result_class = PingParams

    def run(self, relayer, params):
        return {"word": params["word"], "relayer": relayer.identifier}
"""


@pytest.fixture
def registered_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the files be looked for again, and forget what they add."""
    monkeypatch.setattr(registry, "_methods", dict(registry.registered()))
    registry.registered.cache_clear()
    yield
    registry.registered.cache_clear()


def test_every_method_is_known_by_its_network_type_and_name() -> None:
    (method,) = registry.registered().values()
    assert isinstance(method, FeeEstimate)
    assert registry.find("evm", "feeEstimate") is method
    assert (method.params_class, method.result_class) == (FeeEstimateParams, FeeEstimateResult)


@pytest.mark.parametrize(
    ("network_type", "name"),
    [("evm", "feeestimate"), ("evm", ""), ("solana", "feeEstimate"), ("", "feeEstimate"), ("feeEstimate", "evm")],
)
def test_any_other_name_is_not_known(network_type: str, name: str) -> None:
    assert registry.find(network_type, name) is None


def test_a_file_is_all_that_a_method_needs(
    registered_anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ping_of_tests.py").write_text(PING)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    ping = registry.find("evm", "ping")
    assert ping is not None
    assert ping.run(Relayer(identifier="relayer-1"), {"word": "hello"}) == {
        "word": "hello",
        "relayer": "relayer-1",
    }
    assert registry.find("evm", "feeEstimate") is not None


def test_a_method_says_what_it_does() -> None:
    class Nothing(registry.Method):
        name = "nothing"

    with pytest.raises(TypeError, match="run"):
        Nothing()  # type: ignore[abstract]  # which is the point


def test_registering_gives_the_class_back(registered_anew: None) -> None:
    class Echo(FeeEstimate):
        name = "echo"

        def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
            return dict(params)

    assert registry.register(Echo) is Echo
    found = registry.find("evm", "echo")
    assert found is not None
    assert found.run(Relayer(), {"a": 1}) == {"a": 1}
