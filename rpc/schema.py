"""The JSON-RPC call in the OpenAPI document: its request, and a response for each method."""

from copy import copy
from typing import Any

from django.conf import settings
from drf_spectacular.extensions import OpenApiSerializerExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse
from rest_framework import serializers

from relayer_service.api.schema.openapi import MARK, ApiSchema
from relayer_service.api.serializers import ChoiceField, IntegerField, StringField
from rpc.errors import RpcError, TokenNotSupported
from rpc.methods import available_methods
from rpc.methods.base import Method
from rpc.models import PriceSource
from rpc.serializers import VERSION, PriceSourceSerializer, RpcIdField, RpcRequestSerializer

# An unsigned transfer of one wei.
TRANSACTION = "0x02e283aa36a78080808252089470997970c51812dc3a010c7d01b50e0d17dc79c80180c0"
ZERO = {"expected": "0", "maximum": "0"}
NOT_SUPPORTED = TokenNotSupported(
    "Fees cannot be quoted in this token on sepolia: it is not registered or has no price source. Use one of: ETH."
).body()
QUOTE = {
    "method": "feeQuote",
    "network": "sepolia",
    "block_number": "9700000",
    "block_time": "2026-11-15T12:00:00.000000Z",
    "valid_until": "2026-11-15T12:00:12.000000Z",
    "gas": {"estimate": "21000", "buffer": "0", "expected": "21000", "maximum": "21000"},
    "gas_price": {
        "base_fee": "1650000000",
        "base_fee_source": "eth_feeHistory",
        "priority_fee": "110000000",
        "expected": "1760000000",
        "maximum": "2090000000",
    },
    "gas_fee": {"expected": "36960000000000", "maximum": "43890000000000"},
    "l1_fee": ZERO,
    "operator_fee": ZERO,
    "blob_fee": ZERO,
    "native": {"symbol": "ETH", "decimals": 18, "expected": "36960000000000", "maximum": "43890000000000"},
    "tokens": [
        {
            "fee_token": "USDC",
            "symbol": "USDC",
            "address": "0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238",
            "decimals": 6,
            "expected": "0.11088",
            "maximum": "0.13167",
            "conversion_rate": "3000",
            "margin_bps": 0,
            "sources": [{"name": "Fixed rate", "rate": "3000", "age_seconds": 3600}],
        },
        {"fee_token": "DAI", "error": NOT_SUPPORTED},
    ],
}


def _call(name: str, summary: str, method: str, params: dict[str, Any]) -> OpenApiExample:
    body = {"jsonrpc": VERSION, "id": 1, "method": method, "params": params}
    return OpenApiExample(name, body, summary=summary, request_only=True)


def _answer(name: str, summary: str, **outcome: Any) -> OpenApiExample:
    return OpenApiExample(name, {"jsonrpc": VERSION, "id": "1", **outcome}, summary=summary, response_only=True)


# By the method's name.
EXAMPLES: dict[str, list[OpenApiExample]] = {
    "feeEstimate": [
        _call(
            "FeeEstimate",
            "The fee of a transaction, in the network's coin",
            "feeEstimate",
            {"fee_token": "ETH", "network": "sepolia", "transaction": TRANSACTION},
        ),
        _answer(
            "Result", "A fee", result={"estimated_fee": "0.00004389", "conversion_rate": "1", "method": "feeEstimate"}
        ),
    ],
    "feeQuote": [
        _call(
            "FeeQuote",
            "The fee of a transaction in two tokens, with all its parts",
            "feeQuote",
            {"network": "sepolia", "transaction": TRANSACTION, "fee_tokens": ["USDC", "DAI"], "speed": "fast"},
        ),
        _answer("Quote", "A fee in one token, and an error for the other", result=QUOTE),
    ],
}
FAILURE = _answer("Failure", "A failed call", error=NOT_SUPPORTED)
OTHER_PARAMS = "The params of any other method. Params that a method does not accept return the error -32602."


def codes() -> str:
    return "\n".join(f"- `{error.code}` {error.message}" for error in RpcError.__subclasses__())


def origin(method: Method) -> str:
    return f" (extension {method.extension})" if method.extension else ""


class RpcId(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.RpcIdField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        # Null comes with the field's `allow_null`.
        is_string = direction == "response" and settings.RPC_ID_AS_STRING
        return {"type": "string"} if is_string else {"type": ["string", "integer"]}


class RpcParams(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.RpcParamsField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        params = [auto_schema.resolve_serializer(each.params_class, direction).ref for each in available_methods()]
        known = {"anyOf": params} if len(params) > 1 else params[0]
        # Not `anyOf`, of which some generators make one type with the fields of all.
        return {"oneOf": [*params, {"type": "object", "not": known, "description": OTHER_PARAMS}]}


class RpcRequest(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.RpcRequestSerializer"

    def get_name(self, auto_schema: AutoSchema, direction: str) -> str:
        # The generator adds a suffix to requests.
        return "Rpc"

    def map_serializer(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        mapped: Any = auto_schema._map_serializer
        schema: dict[str, Any] = mapped(self.target, direction, bypass_extensions=True)
        schema["properties"]["method"]["examples"] = [method.name for method in available_methods()]
        return schema


class RpcErrorSerializer(serializers.Serializer[Any]):
    """The error of a failed call."""

    code = IntegerField(min_value=-32_768, max_value=-32_000, help_text=f"One of:\n\n{codes()}")
    message = StringField(help_text="The meaning of the code.")
    description = StringField(help_text="The cause of this failure.")


class RpcResultField(serializers.Field[Any, Any, Any, Any]):
    """The result of any method."""


def source_shape(kind: PriceSource.Kind) -> type[PriceSourceSerializer]:
    name = "".join(part.capitalize() for part in kind.value.split("_"))
    values = {"documented_kind": kind, "kind": StringField(), "__doc__": f"A price source: {kind.label}."}
    return type(f"{name}SourceSerializer", (PriceSourceSerializer,), values)


SOURCE_SHAPES = {kind.value: source_shape(kind) for kind in PriceSource.Kind}


def one_of(components: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a schema of alternatives, and set in each the constant value of the field that tells them apart."""
    for value, component in components.items():
        component.schema["properties"][name] |= {"const": value}
    if len(components) == 1:
        (only,) = components.values()
        return dict(only.ref)
    # Without a discriminator, generated clients try one schema after another and drop unknown fields.
    mapping = {value: component.ref["$ref"] for value, component in components.items()}
    references = [component.ref for component in components.values()]
    return {"oneOf": references, "discriminator": {"propertyName": name, "mapping": mapping}}


class PriceSources(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "rpc.serializers.PriceSourceField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        resolve: Any = auto_schema.resolve_serializer
        shapes = {kind: resolve(shape, direction) for kind, shape in SOURCE_SHAPES.items()}
        return one_of(shapes, "kind")


class RpcResult(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = RpcResultField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Any) -> dict[str, Any]:
        resolve: Any = auto_schema.resolve_serializer
        results = {method.name: resolve(method.result_class, direction) for method in available_methods()}
        return one_of(results, "method")


class RpcResponseSerializer(serializers.Serializer[Any]):
    """The response to a call: `result` if it succeeded, else `error`."""

    jsonrpc = ChoiceField([VERSION])
    id = RpcIdField(allow_null=True)
    result = RpcResultField(required=False)
    error = RpcErrorSerializer(required=False)


CALL: dict[str, Any] = {
    "parameters": [
        OpenApiParameter(
            "relayer_id",
            str,
            OpenApiParameter.PATH,
            description="The relayer's ID. Any character may be percent-encoded, including slashes.",
            examples=[OpenApiExample("Relayer", "relayer-1")],
        )
    ],
    "request": RpcRequestSerializer,
}


class RpcSchema(ApiSchema):
    """The parts that depend on the enabled extensions."""

    def get_operation(self, *args: Any) -> dict[str, Any] | None:
        inherited: Any = super().get_operation
        operation: dict[str, Any] | None = inherited(*args)
        # By now the generator has registered the components of all methods.
        resolve: Any = self.resolve_serializer
        of_contract = {method.params_class for method in available_methods() if not method.extension}
        for method in available_methods():
            if method.extension:
                resolve(method.result_class, "response").schema[MARK] = method.extension
                if method.params_class not in of_contract:
                    resolve(method.params_class, "request").schema[MARK] = method.extension
        return operation

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's takes no arguments
        names = ", ".join(f"`{method.name}`{origin(method)}" for method in available_methods())
        return (
            f"Make a JSON-RPC 2.0 call through a relayer. Methods: {names}.\n\n"
            "A malformed request returns the error envelope. Otherwise the status is 200 and the response has either "
            "`result` or `error`, even if the relayer is paused or disabled. Batches are not supported.\n\n"
            f"Error codes:\n\n{codes()}"
        )

    def get_response_serializers(self) -> Any:
        return {200: OpenApiResponse(RpcResponseSerializer, description="The method's result or an error.")}

    def get_examples(self) -> list[OpenApiExample]:
        examples = []
        for method in available_methods():
            for example in EXAMPLES.get(method.name, []):
                examples.append(copy(example))
                examples[-1].summary = f"{example.summary}{origin(method)}"
        return [*examples, FAILURE]
