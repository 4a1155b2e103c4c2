"""The settings of drf-spectacular: what the OpenAPI document says of the service, and the pages that show it."""

from relayer_service import __version__

SETTINGS = {
    "TITLE": "Relayer Management Service",
    # Of the interface, as its document has it; that of the software is in the description.
    "VERSION": "v1 (main branch)",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": (
        "Manage signers, notifications and relayers, and make JSON-RPC calls through a relayer.\n\n"
        "All paths carry the prefix `/api/v1`. The interface described here is that of the main development "
        "branch, which includes unreleased features; a stable release line v1.1.x exists for production use.\n\n"
        "Every request carries `Authorization: Bearer <ACCESS_TOKEN>`. Every answer but that of the JSON-RPC "
        "call is one JSON envelope.\n\n"
        f"Served by version {__version__} of this software."
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
}
