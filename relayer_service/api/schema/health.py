"""The health paths of the extension `lifecycle` in the OpenAPI document. They need no token and have no envelope."""

from http import HTTPStatus
from typing import Any

from relayer_service import extensions
from relayer_service.api.schema.openapi import MARK, REQUEST_ID, error_body, object_schema
from relayer_service.health.views import PROBES

EXTENSION = "lifecycle"
STATE = {"type": "string", "enum": ["ok", "failed"]}
READY = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["ready", "not ready"]},
        "parts": {"type": "object", "additionalProperties": STATE, "description": "The state of each part, by name."},
        "notes": {"type": "array", "items": {"type": "string"}, "description": "Public details of failures."},
    },
    "required": ["status", "parts"],
}
WORKING: dict[str, Any] = {"status": "ready", "parts": dict.fromkeys(PROBES, "ok")}
FAILING = {"status": "not ready", "parts": {**WORKING["parts"], "worker": "failed"}}
ERRORS = (HTTPStatus.BAD_REQUEST, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.INTERNAL_SERVER_ERROR)


def add_paths(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    if extensions.is_enabled(EXTENSION):
        health = _body("The service responds.", object_schema({"status": {"const": "ok"}}), {"status": "ok"})
        result["paths"] = {
            "/api/v1/health": _get("get_health", "Get whether the service responds", {"200": health}),
            **result["paths"],
            "/api/v1/ready": _get(
                "get_readiness",
                "Get whether the service and what it depends on work",
                {
                    "200": _body("All required parts work.", READY, WORKING),
                    "503": _body("A required part fails.", READY, FAILING),
                },
            ),
        }
    return result


def _get(operation_id: str, summary: str, responses: dict[str, Any]) -> dict[str, Any]:
    errors = {str(int(status)): error_body(status, status.phrase, is_coded=True) for status in ERRORS}
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "description": f"{summary}. Requires no token. Extension: `{EXTENSION}`.",
            "tags": ["Service"],
            "security": [],
            "responses": responses | errors,
            MARK: EXTENSION,
        }
    }


def _body(description: str, schema: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": schema, "examples": {"Response": {"value": example}}}
    return {
        "description": description,
        "content": {"application/json": content},
        "headers": {"X-Request-ID": REQUEST_ID},
    }
