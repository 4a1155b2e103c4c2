"""The JSON-RPC call's part of the OpenAPI document: what a request is, and an answer for each registered method."""

from copy import copy
from functools import cache
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, PolymorphicProxySerializer
from rest_framework import serializers

from relayer_service import extensions
from relayer_service.api.openapi import MARK, ApiSchema
from relayer_service.api.serializers import ChoiceField, IntegerField, StringField
from rpc.errors import RpcError
from rpc.methods.base import Method
from rpc.registry import methods
from rpc.schema_examples import EXAMPLES, FAILURE
from rpc.serializers import VERSION, RpcIdField, RpcRequestSerializer

OTHER_PARAMS = "Those of any other method. What a method does not take is answered with the error -32602."


def codes() -> str:
    """Return the errors that a call can fail with, as a list in Markdown."""
    return "\n".join(f"- `{error.code}` {error.message}" for error in RpcError.__subclasses__())


def origin(method: Method) -> str:
    """Return what follows the name of an extension's method."""
    return f" (extension {method.extension})" if method.extension else ""


def description() -> str:
    names = ", ".join(f"`{method.name}`{origin(method)}" for method in methods())
    return (
        f"Make a JSON-RPC 2.0 call through a relayer. Methods: {names}.\n\n"
        "A request that is not well-formed is answered in the error envelope. Once it is, the status is 200 and the "
        "answer has either `result` or `error`, also where the relayer is paused or disabled. Batches are not "
        f"taken.\n\nThe codes of `error`:\n\n{codes()}"
    )


class RpcId(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.RpcIdField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        # Null comes with the field's `allow_null`.
        is_string = direction == "response" and settings.RPC_ID_AS_STRING
        return {"type": "string"} if is_string else {"type": ["string", "integer"]}


class RpcParams(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    """The params of each method; others are well-formed too, and answered with a JSON-RPC error."""

    target_class = "rpc.serializers.RpcParamsField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        params = [auto_schema.resolve_serializer(each.params_class, direction).ref for each in methods()]
        return {"anyOf": [*params, {"type": "object", "description": OTHER_PARAMS}]}


class RpcRequest(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.RpcRequestSerializer"

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        # A request gets its suffix from the generator.
        return "Rpc"

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        mapped: Any = auto_schema._map_serializer
        schema: dict[str, Any] = mapped(self.target, direction, bypass_extensions=True)
        schema["properties"]["method"]["examples"] = [method.name for method in methods()]
        return schema


class RpcErrorSerializer(serializers.Serializer[Any]):
    """Why a call has failed."""

    code = IntegerField(min_value=-32_768, max_value=-32_000, help_text=f"One of:\n\n{codes()}")
    message = StringField(help_text="What the code means.")
    description = StringField(help_text="What was wrong with this call.")


class RpcFailureSerializer(serializers.Serializer[Any]):
    """The answer to a call that has failed."""

    jsonrpc = ChoiceField([VERSION])
    id = RpcIdField(allow_null=True)
    error = RpcErrorSerializer()


@cache
def success_of(method: Method) -> type[serializers.Serializer[Any]]:
    """Return the component of the answer to a method that has worked."""
    fields = {
        "__doc__": f"The answer to {method.name}.",
        "jsonrpc": ChoiceField([VERSION]),
        "id": RpcIdField(allow_null=True),
        "result": method.result_class(),
    }
    name = method.name[0].upper() + method.name[1:]
    return type(f"{name}SuccessSerializer", (serializers.Serializer,), fields)


CALL: dict[str, Any] = {
    "parameters": [
        OpenApiParameter(
            "relayer_id",
            str,
            OpenApiParameter.PATH,
            description="The relayer's id; any character in it may be percent-encoded, slashes included.",
            examples=[OpenApiExample("Relayer", "relayer-1")],
        )
    ],
    "request": RpcRequestSerializer,
}


class RpcSchema(ApiSchema):
    """What depends on the methods that can be called, and so on the extensions that are on."""

    def get_operation(self, *args: Any) -> dict[str, Any] | None:
        inherited: Any = super().get_operation
        operation: dict[str, Any] | None = inherited(*args)
        # All components of the methods are in the registry by now.
        resolve: Any = self.resolve_serializer
        of_contract = {method.params_class for method in methods() if not method.extension}
        for method in methods():
            if method.extension:
                resolve(success_of(method), "response").schema[MARK] = method.extension
                if method.params_class not in of_contract:
                    resolve(method.params_class, "request").schema[MARK] = method.extension
        return operation

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's takes no arguments
        return description()

    def get_response_serializers(self) -> Any:
        answers = PolymorphicProxySerializer(
            component_name="RpcResponse",
            serializers=[*map(success_of, methods()), RpcFailureSerializer],
            resource_type_field_name=None,
        )
        return {200: OpenApiResponse(answers, description="The method's result, or why there is none.")}

    def get_tags(self) -> list[str]:
        used = dict.fromkeys(method.extension for method in methods() if method.extension)
        return [*super().get_tags(), *map(extensions.tag, used)]

    def get_examples(self) -> list[OpenApiExample]:
        found = []
        for method in methods():
            for example in EXAMPLES.get(method.name, []):
                shown = copy(example)
                shown.summary = f"{example.summary}{origin(method)}"
                found.append(shown)
        return [*found, FAILURE]
