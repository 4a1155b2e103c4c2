"""What is measured, an area a module: each has `measure`, which returns its rows of the table."""

AREAS = (
    "lists",
    "create",
    "fees",
    "webhooks",
    "admin",
    "memory",
    "bodies",
    "health",
    "sign_in",
    "transactions",
    "sending",
    "reference",
)
