from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework.serializers import Serializer

from relayer_service.api.serializers import StrictSerializer
from relayers.models import Relayer


class Method(ABC):
    """A JSON-RPC method with its params and its result."""

    name: ClassVar[str]
    network_type: ClassVar[str]
    params_class: ClassVar[type[StrictSerializer]]
    # Its field `method` is the name of the method, from which clients know the type of the result.
    result_class: ClassVar[type[Serializer[Any]]]
    # The extension that the method belongs to; empty for the contract's methods.
    extension: ClassVar[str] = ""

    def __init__(self) -> None:
        # Shared by all calls: it has no state, and creating one costs more than using it.
        self.params = self.params_class()

    @abstractmethod
    def run(self, relayer: Relayer, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result; raise an `RpcError` if there is none."""
