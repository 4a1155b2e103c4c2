"""The settings of drf-spectacular: the OpenAPI document and the pages that show it."""

from relayer_service import __version__

SETTINGS = {
    "TITLE": "Relayer Management Service",
    # Generators give their packages this version, so that it must be one that package managers accept.
    "VERSION": __version__,
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": (
        "Manage signers, notifications and relayers, and make JSON-RPC calls through a relayer.\n\n"
        "All paths start with `/api/v1`. The version of this document is that of the software that serves it.\n\n"
        "Send `Authorization: Bearer <ACCESS_TOKEN>` with every request. Every response except that of the "
        "JSON-RPC call is a JSON envelope."
    ),
    "CONTACT": {"name": "The maintainers of the Relayer Management Service"},
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
    "PREPROCESSING_HOOKS": ["relayer_service.api.schema.openapi.keep_api_paths"],
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "signers.schema.add_components",
        "relayer_service.api.schema.health.add_paths",
        "notifications.schema.webhooks.add_webhooks",
        "relayer_service.api.schema.openapi.finish",
    ],
    "ENUM_NAME_OVERRIDES": {
        "DeliveryState": "notifications.models.Delivery.State",
        "JobKindEnum": "relayer_service.api.jobs.KINDS",
        "JobState": "relayer_service.jobs.models.Job.State",
    },
}
