"""The `webhooks` of the OpenAPI document: the events of all apps, with their payloads and headers."""

from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

from drf_spectacular.plumbing import append_meta, resolve_type_hint

from notifications.events import all_events
from relayer_service import extensions
from relayer_service.api.schema.openapi import MARK, object_schema

# By the names of their components.
HEADERS: dict[str, dict[str, Any]] = {
    "WebhookId": {
        "in": "header",
        "name": "webhook-id",
        "required": True,
        "description": "The ID of the delivery, the same for every attempt and replay.",
        "schema": {"type": "string", "examples": ["msg_b676b8cf58cd467c83c0b76ad6f3e88a"]},
    },
    "WebhookTimestamp": {
        "in": "header",
        "name": "webhook-timestamp",
        "required": True,
        "description": "When this attempt was made, in seconds since 1970.",
        "schema": {"type": "string", "pattern": "^[0-9]+$", "examples": ["1767225600"]},
    },
    "WebhookSignature": {
        "in": "header",
        "name": "webhook-signature",
        "description": "One or more signatures, separated by spaces: `v1,` and the base64 of HMAC-SHA256 over "
        "`{webhook-id}.{webhook-timestamp}.{body}`. Absent if the notification has no signing key.",
        "schema": {"type": "string", "examples": ["v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="]},
    },
}
TAG = "Webhooks"
# OpenAPI Generator would write functions that call webhooks, which do not compile; it writes the types in any case.
NOT_CALLED = {"x-internal": True}
RESPONSES = {
    "200": {"description": "The event was received, as with any other 2xx status. Others are retried, except 410."},
    "410": {"description": "No more events are sent to the webhook."},
}


def add_webhooks(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the events of the enabled extensions; the contract does not show any."""
    events = [event for event in all_events().values() if extensions.is_enabled(event.extension)]
    schemas = result["components"]["schemas"]
    if events:
        result["components"]["parameters"] = HEADERS
    for event in events:
        title = "".join(word.capitalize() for word in event.name.replace(".", "_").split("_"))
        payload = f"{title}Event"
        data = event.component or event.data.__name__
        if data not in schemas:
            schemas[data] = type_schema(event.data)
            if event.base_component:
                schemas[data]["properties"] |= schemas[event.base_component]["properties"]
        schemas[payload] = object_schema(
            {
                "type": {"type": "string", "const": event.name},
                "timestamp": {"type": "string", "format": "date-time", "description": "When the event occurred."},
                "data": _reference(data),
            }
        )
        operation = {
            "operationId": f"on_{event.name.replace('.', '_')}",
            "summary": event.description.partition(". ")[0].rstrip("."),
            "description": event.description,
            "tags": [TAG],
            "security": [],
            "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in HEADERS],
            "requestBody": {"required": True, "content": {"application/json": {"schema": _reference(payload)}}},
            "responses": RESPONSES,
            MARK: event.extension,
            **NOT_CALLED,
        }
        result.setdefault("webhooks", {})[event.name] = {"post": operation}
    return result


def type_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of an event's data."""
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        return object_schema({name: type_schema(each) for name, each in hints.items()})
    if get_origin(hint) is Annotated:
        plain, keywords = get_args(hint)
        return {**type_schema(plain), **keywords}
    resolve: Any = resolve_type_hint
    # Which turns `nullable`, a keyword of OpenAPI 3.0, into a type.
    return append_meta(resolve(hint), {})


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
