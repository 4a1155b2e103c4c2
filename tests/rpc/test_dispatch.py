"""From a request to the method and back: whatever goes wrong is an error object, and every call is counted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pytest_django import Settings

from relayer_service.api.serializers import StrictSerializer, StringField
from relayer_service.observability.call_counts import RELAYER, CallCount
from relayers.models import Relayer
from rpc import counters, dispatch, errors
from rpc.methods import METHODS
from rpc.methods.base import Method
from tests.relayers.factories import relayer
from tests.rpc.estimates import failure

pytestmark = pytest.mark.django_db

NOT_FOUND = failure(-32601, "Method not found", "This method does not exist on relayers of type evm.")

SECRET = "https://rpc.example.com/v1/hunter2"


class EchoParams(StrictSerializer):
    word = StringField()


class Echo(Method):
    """Return a word as it came, or fail as it says."""

    name = "echo"
    network_type = "evm"
    params_class = EchoParams
    result_class = EchoParams

    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        if params["word"] == "refuse":
            raise errors.PolicyRefused("The word is not allowed.")
        if params["word"] == "crash":
            raise RuntimeError(f"cannot reach password={SECRET}")
        if params["word"] == "type":
            raise TypeError("missing 1 required positional argument")
        return {"word": params["word"]}


class Shout(Echo):
    """A method of an extension."""

    name = "shout"
    extension = "quotes"


@pytest.fixture(autouse=True)
def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, ("evm", "echo"), Echo())
    monkeypatch.setitem(METHODS, ("evm", "shout"), Shout())


def answer(word: Any, name: str = "echo") -> dict[str, Any]:
    return dispatch.answer(Relayer.objects.get(), name, {"word": word})


def counted() -> dict[tuple[str, str], int]:
    counters.flush()
    return {(row.method, row.outcome): row.calls for row in CallCount.objects.filter(kind=RELAYER)}


def test_a_method_of_another_network_type_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    relayer()
    monkeypatch.setitem(METHODS, ("other", "elsewhere"), Echo())
    assert answer("hello", "elsewhere") == NOT_FOUND
    assert answer("hello") == {"result": {"word": "hello"}}


INTERNAL = "The call failed because of an internal error. The service's log has the cause under the request ID."


@pytest.mark.parametrize(
    ("word", "code", "message", "description"),
    [
        (1, -32602, "Invalid params", "word: a string is required"),
        ("refuse", -32004, "Policy refused", "The word is not allowed."),
        ("crash", -32603, "Internal error", INTERNAL),
        # A fault of ours is not taken for bad params.
        ("type", -32603, "Internal error", INTERNAL),
    ],
)
def test_an_error_comes_without_a_result(word: Any, code: int, message: str, description: str) -> None:
    relayer()
    assert answer(word) == failure(code, message, description)


def test_the_cause_of_a_crash_is_logged_with_the_relayer(caplog: pytest.LogCaptureFixture) -> None:
    relayer()
    with caplog.at_level(logging.ERROR):
        answer("crash")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("rpc.dispatch", "The method echo failed")
    assert record.__dict__["fields"] == {"relayer": "relayer-1"}
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], RuntimeError)


def test_every_call_is_counted_by_method_and_outcome() -> None:
    relayer()
    for word in ("hello", "hello", "refuse", "crash", 1):
        answer(word)
    answer("a", "nothing")
    answer("a", "x" * 1000)
    assert counted() == {
        ("echo", "ok"): 2,
        ("echo", "-32004"): 1,
        ("echo", "-32603"): 1,
        ("echo", "-32602"): 1,
        # Callers choose names without end: all of them are one.
        ("unknown", "-32601"): 2,
    }


def test_a_method_of_an_extension_is_known_only_where_it_is_on(settings: Settings) -> None:
    settings.EXTENSIONS = []
    relayer()
    # Its params are not looked at either.
    assert [answer("hello", "shout"), answer(1, "shout")] == [NOT_FOUND, NOT_FOUND]
    settings.EXTENSIONS = ["quotes"]
    assert answer("hello", "shout") == {"result": {"word": "hello"}}
    assert counted() == {("unknown", "-32601"): 2, ("shout", "ok"): 1}


def test_every_error_has_a_code_of_its_own() -> None:
    kinds = errors.RpcError.__subclasses__()
    assert sorted(kind.code for kind in kinds) == [-32603, -32602, -32601, *range(-32005, -31999)]
    assert len({kind.message for kind in kinds}) == len(kinds)
