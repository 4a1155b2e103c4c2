"""The settings of drf-spectacular: the OpenAPI document and the pages that show it."""

from relayer_service import __version__

SETTINGS = {
    "TITLE": "Relayer Management Service",
    # The version of the API, as the contract has it; the description has that of the software.
    "VERSION": "v1 (main branch)",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": (
        "Manage signers, notifications and relayers, and make JSON-RPC calls through a relayer.\n\n"
        "All paths start with `/api/v1`. This document describes the API of the main development branch, which "
        "includes unreleased features; a stable release line v1.1.x exists for production use.\n\n"
        "Send `Authorization: Bearer <ACCESS_TOKEN>` with every request. Every response except that of the "
        "JSON-RPC call is a JSON envelope.\n\n"
        f"Software version: {__version__}."
    ),
    "LICENSE": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
    "SERVERS": [{"url": "/", "description": "This service"}],
    "SERVE_PUBLIC": True,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {
        "deepLinking": True,
        "defaultModelsExpandDepth": 0,
        "displayRequestDuration": True,
    },
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "PREPROCESSING_HOOKS": ["relayer_service.api.openapi.keep_api_paths"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "relayer_service.api.openapi.finish",
        "signers.schema.add_components",
    ],
    "ENUM_NAME_OVERRIDES": {
        "DeliveryState": "notifications.models.Delivery.State",
        "JobState": "relayer_service.jobs.models.Job.State",
    },
}
