"""Extensions: what the service offers beyond the contract, each of them where EXTENSIONS names it."""

from django.conf import settings

# What each does, as the OpenAPI document says it.
BUILT: dict[str, str] = {
    "lifecycle": "REST for the whole fleet: create, read, change and delete; needs the scopes `read` or `manage`.",
    "quotes": "Fees in all tokens at once, with all that they rest on: the JSON-RPC method `feeQuote`.",
}
PLANNED: tuple[str, ...] = ("transactions", "signing")


def is_on(name: str) -> bool:
    """Return whether an extension is offered; what has none, and so an empty name, is of the contract."""
    return not name or name in settings.EXTENSIONS


def tag(name: str) -> str:
    """Return the tag under which the OpenAPI document has an extension."""
    return f"Extension: {name}"
