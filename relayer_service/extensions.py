"""Extensions of the contract. EXTENSIONS lists the enabled ones."""

from django.conf import settings

# Descriptions for the OpenAPI document.
BUILT: dict[str, str] = {
    "lifecycle": "Create, read, update and delete all resources; requires the scope `read` or `manage`.",
    "quotes": "Fees in several tokens at once, with all values they derive from: the JSON-RPC method `feeQuote`.",
    "signing": "Sign messages and typed data with the key of a relayer that allows it; requires the scope `sign`.",
    "transactions": "Send transactions and follow them until they are final; requires the scope `send`.",
}
# The extension of each scope; `read` and `manage` limit the contract's operations too.
SCOPES: dict[str, str] = {
    "read": "",
    "manage": "",
    "send": "transactions",
    "sign": "signing",
    "rotate": "lifecycle",
}


def is_enabled(name: str) -> bool:
    """Return whether an extension is enabled; an empty name means the contract."""
    return not name or name in settings.EXTENSIONS


def available_scopes() -> list[str]:
    """Return the scopes of the contract and of enabled extensions."""
    return [scope for scope, extension in SCOPES.items() if is_enabled(extension)]
