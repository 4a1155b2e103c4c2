"""The methods that can be called through a relayer, by network type; each is a file in `rpc/methods`."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, TypeVar

from rest_framework.serializers import Serializer

from relayer_service.api.serializers import StrictSerializer
from relayers.models import Relayer
from rpc import methods


class Method(ABC):
    """A method: its name, the params it takes, the result it returns, and what it does."""

    name: ClassVar[str]
    network_type: ClassVar[str]
    params_class: ClassVar[type[StrictSerializer]]
    result_class: ClassVar[type[Serializer[Any]]]

    def __init__(self) -> None:
        # One for all calls: it keeps nothing of them, and to make one costs more than to use it.
        self.params = self.params_class()

    @abstractmethod
    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result; raise an `RpcError` where there is none."""


Registered = TypeVar("Registered", bound=type[Method])

_methods: dict[tuple[str, str], Method] = {}


def register(method: Registered) -> Registered:
    """Let a method be called, under its name and on its network type."""
    _methods[method.network_type, method.name] = method()
    return method


def find(network_type: str, name: str) -> Method | None:
    return registered().get((network_type, name))


@cache
def registered() -> dict[tuple[str, str], Method]:
    """Return all methods by network type and name, once their files are loaded."""
    for module in pkgutil.iter_modules(methods.__path__):
        importlib.import_module(f"{methods.__name__}.{module.name}")
    return _methods
