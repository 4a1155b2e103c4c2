"""Extensions: what the service offers beyond the contract, each of them where EXTENSIONS names it."""

from django.conf import settings

# What each does, as the OpenAPI document says it.
BUILT: dict[str, str] = {
    "lifecycle": "REST for the whole fleet: create, read, change and delete; needs the scopes `read` or `manage`.",
    "quotes": "Fees in all tokens at once, with all that they rest on: the JSON-RPC method `feeQuote`.",
}
PLANNED: tuple[str, ...] = ("transactions", "signing")
# By scope of a token, the extension that it belongs to; `read` and `manage` limit the contract's operations too.
SCOPES: dict[str, str] = {"read": "", "manage": "", "send": "transactions", "sign": "signing"}


def is_on(name: str) -> bool:
    """Return whether an extension is offered; what has none, and so an empty name, is of the contract."""
    return not name or name in settings.EXTENSIONS


def available_scopes() -> list[str]:
    """Return the scopes that tokens can be issued with: not those of extensions that are off or not built yet."""
    return [scope for scope, extension in SCOPES.items() if is_on(extension)]


def tag(name: str) -> str:
    """Return the tag under which the OpenAPI document has an extension."""
    return f"Extension: {name}"
