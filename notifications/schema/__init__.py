"""The OpenAPI document of notifications: operations, and the webhooks that they receive."""
