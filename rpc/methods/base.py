from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.serializers import Serializer

from relayer_service.api.serializers import StrictSerializer
from rpc.relayer_lookup import RpcRelayer


class Method(ABC):
    """A method: its name, the params it takes, the result it returns, and what it does."""

    name: ClassVar[str]
    network_type: ClassVar[str]
    params_class: ClassVar[type[StrictSerializer]]
    result_class: ClassVar[type[Serializer[Any]]]
    # Without which the method is unknown; the contract's methods have none.
    extension: ClassVar[str] = ""

    def __init__(self) -> None:
        # One for all calls, as making one costs more than using it; it has no state.
        self.params = self.params_class()

    @abstractmethod
    def run(self, relayer: RpcRelayer, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result; raise an `RpcError` where there is none."""
