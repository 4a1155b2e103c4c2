"""The OpenAPI document: bodies as they are on the wire, including envelopes and errors."""

from http import HTTPStatus
from typing import Any, Literal

from django.urls import URLPattern
from drf_spectacular.extensions import OpenApiAuthenticationExtension, OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from relayer_service import extensions
from relayer_service.api import envelope, idempotency
from relayer_service.api.envelope import Fault
from relayer_service.api.error_codes import HEADER, ErrorCode, code_of_status
from relayer_service.api.exceptions import is_of_extension
from relayer_service.api.operations import extension_of
from relayer_service.api.parsers import StrictJSONParser
from relayer_service.api.serializers import StrictSerializer

# Marks the operations and components of an extension.
MARK = "x-extension"
IDEMPOTENCY = "A request that is sent again with the same key within 24 hours returns the first response."
# Descriptions of tags, in the order of the pages.
TAGS: dict[str, str] = {
    "Relayers": "Accounts on a network, each with a signer, an optional notification and policies.",
    "Transactions": "Send transactions and follow them until they are final.",
    "Signing": "Sign messages and typed data with the key of a relayer that allows it.",
    "JSON-RPC": "JSON-RPC 2.0 calls through a relayer.",
    "Fee tokens": "Tokens that fees can be estimated in, and where their prices are read.",
    "Networks": "The networks that relayers can be on.",
    "Signers": "Local keys, and references to keys in external systems.",
    "Notifications": "Webhooks, with an optional key that signs what is sent to them.",
    "Tokens": "The access token of the request.",
    "Jobs": "Work on many rows that a request started.",
    "Service": "Whether the service works.",
    "Webhooks": "Events that the service sends to the targets of notifications.",
}
LOG_ENTRIES = {"type": "array", "items": {"$ref": "#/components/schemas/LogEntry"}}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


FAULTS = {"type": "array", "items": {"$ref": "#/components/schemas/Fault"}}
ERROR = {"data": {"const": None}, "message": {"type": "string"}, "success": {"const": False}}
COMPONENTS: dict[str, dict[str, Any]] = {
    "LogEntry": object_schema({"level": {"type": "string", "examples": ["log"]}, "message": {"type": "string"}}),
    "Metadata": object_schema({"logs": LOG_ENTRIES, "traces": {"type": "array", "items": {}}}),
    "Pagination": object_schema(
        {
            "current_page": {"type": "integer", "minimum": 1},
            "per_page": {"type": "integer", "minimum": 0},
            "total_items": {"type": "integer", "minimum": 0},
        }
    ),
    "Error": {
        "type": "object",
        "description": "`metadata` lists the errors of a bad request; other errors have none.",
        "properties": {**ERROR, "metadata": object_schema({"logs": LOG_ENTRIES})},
        "required": list(ERROR),
    },
}
# Of extensions, whose bad requests have a code for each fault.
CODED_COMPONENTS: dict[str, dict[str, Any]] = {
    "Fault": object_schema(
        {**COMPONENTS["LogEntry"]["properties"], "code": {"type": "string", "examples": ["required"]}}
    ),
    "BadRequest": {
        "type": "object",
        "description": "`metadata` lists the errors of the request, each with its code.",
        "properties": {**ERROR, "metadata": object_schema({"logs": FAULTS})},
        "required": list(ERROR),
    },
}
EXAMPLE_CODES = {HTTPStatus.BAD_REQUEST: ErrorCode.REQUIRED, HTTPStatus.NOT_FOUND: ErrorCode.NOT_FOUND}
ERROR_CODE = "The code of the error, of a bad request that of its first fault. Codes are stable."
CURSOR_PAGINATION = ResolvedComponent(  # type: ignore[no-untyped-call]
    "CursorPagination",
    ResolvedComponent.SCHEMA,
    {
        "type": "object",
        "description": "Without `current_page` and `total_items` if the request has a `cursor`.",
        "properties": {
            **COMPONENTS["Pagination"]["properties"],
            "next_cursor": {
                "type": "string",
                "description": "The `cursor` of the rows that follow; absent if there are none.",
            },
        },
        "required": ["per_page"],
    },
    object="CursorPagination",
)
REQUEST_ID = {"schema": {"type": "string"}, "description": "The ID of the request, as in the log."}
ERROR_HEADERS: dict[HTTPStatus, dict[str, Any]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": {"schema": {"type": "string", "examples": ["Bearer"]}}},
    HTTPStatus.FORBIDDEN: {
        "WWW-Authenticate": {
            "schema": {"type": "string", "examples": ['Bearer error="insufficient_scope", scope="manage"']},
            "description": "Names the missing scope.",
        }
    },
    HTTPStatus.METHOD_NOT_ALLOWED: {"Allow": {"schema": {"type": "string", "examples": ["GET, HEAD"]}}},
    HTTPStatus.TOO_MANY_REQUESTS: {"Retry-After": {"schema": {"type": "string", "examples": ["1"]}}},
    HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": {"schema": {"type": "string", "examples": ["5"]}}},
}
EVERY_VIEW = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.INTERNAL_SERVER_ERROR,
)


def keep_api_paths(endpoints: list[tuple[str, str, str, URLPattern]]) -> list[tuple[str, str, str, URLPattern]]:
    """Keep the paths under `/api/v1/`, without their optional trailing slashes."""
    return [
        (path.removesuffix("/"), regex, method, callback)
        for path, regex, method, callback in endpoints
        if path.startswith("/api/v1/")
        and method.lower() not in getattr(callback, "initkwargs", {}).get("fallthrough", {})
    ]


def finish(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    components = result.setdefault("components", {})
    paths = [*result["paths"].values(), *result.get("webhooks", {}).values()]
    operations = [operation for path in paths for operation in path.values()]
    coded = CODED_COMPONENTS if any(MARK in operation for operation in operations) else {}
    components["schemas"] = dict(sorted({**components.get("schemas", {}), **COMPONENTS, **coded}.items()))
    result.setdefault("security", [{"bearer": []}])
    mark_components(result, operations)
    # Described tags first, and in their order.
    names = {name for operation in operations for name in operation["tags"]}
    result["tags"] = [{"name": name, "description": text} for name, text in TAGS.items() if name in names]
    result["tags"] += [{"name": name} for name in sorted(names - TAGS.keys())]
    enabled = [f"- `{name}`: {text}" for name, text in extensions.BUILT.items() if extensions.is_enabled(name)]
    if enabled:
        result["info"]["description"] += "\n\nExtensions of the contract:\n\n" + "\n".join(enabled)
    return result


def mark_components(document: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    """Mark the components that only extensions refer to."""
    schemas = document["components"]["schemas"]
    of_contract = referred(document["paths"], schemas)
    for node in [node for node in [*schemas.values(), *operations] if MARK in node]:
        inside = {key: value for key, value in node.items() if key != MARK}
        for name in referred(inside, schemas) - of_contract:
            schemas[name][MARK] = node[MARK]


def referred(node: Any, schemas: dict[str, Any]) -> set[str]:
    """Return the names of the unmarked components that a node refers to, directly or indirectly."""
    found: set[str] = set()
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict) and MARK not in node:
            left += node.values()
            name = str(node.get("$ref", "")).removeprefix("#/components/schemas/")
            if name in schemas.keys() - found and MARK not in schemas[name]:
                found.add(name)
                left.append(schemas[name])
    return found


def success_schema(data: dict[str, Any], pagination: str = "") -> dict[str, Any]:
    """Return the schema of a success envelope, with the component of its pagination if it is a list."""
    properties: dict[str, Any] = {
        "data": data,
        "error": {"type": "string"},
        "metadata": {"$ref": "#/components/schemas/Metadata"},
        "success": {"const": True},
    }
    if pagination:
        properties["pagination"] = {"$ref": f"#/components/schemas/{pagination}"}
    return object_schema(properties)


class ApiSchema(AutoSchema):
    """Wraps each success body in the envelope and adds the error responses.

    A viewset with `enveloped = False` has no envelope.
    """

    view: Any

    def get_tags(self) -> list[str]:
        return getattr(self.view, "tags", None) or super().get_tags()

    def get_extensions(self) -> dict[str, Any]:
        return {MARK: extension} if (extension := self._extension()) else {}

    def get_auth(self) -> list[dict[str, Any]]:
        return [{"bearer": [scope]}] if (scope := self._scope()) else super().get_auth()

    def get_description(self) -> str:  # type: ignore[override]  # the stubs are of another version
        own = getattr(vars(type(self.view)).get(self.view.action), "__doc__", None)
        summary = self.get_summary()
        # Not the text of the viewset, which is about all of its operations.
        text = f"{summary}." if summary and not own else str(super().get_description())
        if not (extension := self._extension()):
            return text
        required = f" Requires the scope `{scope}`." if (scope := self._scope()) else ""
        return f"{text}{required} Extension: `{extension}`."

    def get_override_parameters(self) -> list[Any]:
        if not (extension := idempotency.extension(self.view)):
            return []
        schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
        text = getattr(self.view, "idempotency_description", IDEMPOTENCY)
        marks = {MARK: extension}
        return [OpenApiParameter(idempotency.HEADER, schema, "header", description=text, extensions=marks)]

    def map_parsers(self) -> list[str]:
        # Merge patches are accepted too, but generators emit a function or a parameter for each content type.
        return [StrictJSONParser.media_type]

    def get_response_serializers(self) -> Any:
        deleted = getattr(self.view, "deleted_message", "")
        if deleted and self.view.action == "destroy":
            return {200: OpenApiResponse(OpenApiTypes.STR, description=deleted)}
        return super().get_response_serializers()

    def _scope(self) -> str:
        """Return the scope of an extension's action; the contract has no scopes."""
        return self.view.operation.scope if self._extension() else ""

    def _extension(self) -> str:
        return extension_of(self.view, self.view.action)

    def _map_basic_serializer(self, serializer: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if direction == "request" and isinstance(serializer, StrictSerializer):
            schema["additionalProperties"] = False
            schema |= serializer.document_limits
        return schema

    def _get_request_body(self, direction: Literal["request", "response"] = "request") -> dict[str, Any] | None:
        body: dict[str, Any] | None = super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        if body:
            body["required"] = not self.view.operation.optional_body
        return body

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, message in self._errors().items():
            bodies.setdefault(str(int(status)), error_body(status, message, is_coded=is_of_extension(self.view)))
        return bodies

    def _errors(self) -> dict[HTTPStatus, str]:
        errors: dict[Any, str] = {status: status.phrase for status in EVERY_VIEW}
        if self.view.get_throttles():
            errors[HTTPStatus.TOO_MANY_REQUESTS] = HTTPStatus.TOO_MANY_REQUESTS.phrase
        if self.view.detail:
            errors[HTTPStatus.NOT_FOUND] = self.view.not_found_message.format(f"{self.view.basename}-1")
        if idempotency.extension(self.view):
            errors[HTTPStatus.CONFLICT] = idempotency.OTHER_BODY
        if self.view.action == "create":
            errors[HTTPStatus.CONFLICT] = self.view.id_taken_message
        if in_use := getattr(self.view, "in_use_message", "") if self.view.action == "destroy" else "":
            errors[HTTPStatus.CONFLICT] = in_use
        if any(map(extensions.is_enabled, extensions.BUILT)):
            errors[HTTPStatus.FORBIDDEN] = HTTPStatus.FORBIDDEN.phrase
        return dict(sorted((errors | self.view.operation.errors).items()))

    def _get_response_for_code(self, serializer: Any, status_code: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        body: dict[str, Any] = super()._get_response_for_code(serializer, status_code, *args, **kwargs)  # type: ignore[no-untyped-call]
        body.setdefault("headers", {})["X-Request-ID"] = REQUEST_ID
        if not getattr(self.view, "enveloped", True):
            return body
        for media in body.get("content", {}).values():
            media["schema"] = success_schema(media["schema"], self._pagination(serializer))
            for example in media.get("examples", {}).values():
                example["value"] = self._example_envelope(example["value"])
        return body

    def _pagination(self, serializer: Any) -> str:
        """Return the name of the component that a list's pagination has; an empty name for other responses."""
        if not self._is_list_view(serializer):
            return ""
        name: str = self.view.pagination_class.component
        if name == CURSOR_PAGINATION.name:
            self.registry.register_on_missing(CURSOR_PAGINATION)
        return name

    def _example_envelope(self, value: Any) -> Any:
        if isinstance(value, dict) and set(value) >= {"data", "success"}:
            return value
        # drf-spectacular turns the examples of list views into lists.
        if isinstance(value, list):
            value = envelope.Page(value, [], {"current_page": 1, "per_page": 10, "total_items": 1})
        return envelope.success(value)


def error_body(status: HTTPStatus, message: str, *, is_coded: bool) -> dict[str, Any]:
    """Return the response of an error; with `is_coded`, the faults of a bad request have codes."""
    is_bad = status == HTTPStatus.BAD_REQUEST
    faults = [Fault("field: this field is required", ErrorCode.REQUIRED)] if is_bad else []
    example = envelope.failure(message, faults=faults, with_codes=is_coded)
    component = "BadRequest" if is_bad and is_coded else "Error"
    content = {"schema": {"$ref": f"#/components/schemas/{component}"}, "examples": {"Error": {"value": example}}}
    code = EXAMPLE_CODES.get(status) or code_of_status(status)
    return {
        "description": message,
        "content": {"application/json": content},
        "headers": {
            "X-Request-ID": REQUEST_ID,
            HEADER: {"schema": {"type": "string", "examples": [code.value]}, "description": ERROR_CODE},
            **ERROR_HEADERS.get(status, {}),
        },
    }


class ExactInteger(OpenApiSerializerFieldExtension):  # type: ignore[no-untyped-call]
    target_class = "relayer_service.api.serializers.IntegerField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.target.min_value, "maximum": self.target.max_value}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "tokens.authentication.BearerAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An access token, issued in the admin."}
