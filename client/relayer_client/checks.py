"""Arguments that are refused before anything is sent."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx

URL = re.compile(r"https?://[^/?#@\s]+(?:/[^?#\s]*)?", re.IGNORECASE)
TOKEN = re.compile(r"[!-~]+")
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [!-~](?:[ -~]*[!-~])?")
OWN_HEADERS = frozenset({"authorization", "idempotency-key"})
# As the service accepts it: visible ASCII characters without a comma.
KEY = re.compile(r"[!-+\--~]{1,255}")
DOTS = frozenset({".", ".."})
# Ends of paths below a resource, which the service does not accept as the end of an ID.
RESERVED = {
    "relayers": re.compile(
        r"/(rpc|status|balance|sign|sign-typed-data|sign-transaction|transactions(/.*)?)/?\Z", re.DOTALL
    ),
    "notifications": re.compile(r"/(deliveries(/[^/]*(/replay)?)?|test)/?\Z"),
}


class InvalidId(ValueError):
    """The ID cannot be a part of a path."""


def is_service_url(url: Any) -> bool:
    if not (isinstance(url, str) and URL.fullmatch(url)):
        return False
    try:
        httpx.URL(url)
    except httpx.InvalidURL:
        return False
    return True


def is_token(token: Any) -> bool:
    return isinstance(token, str) and TOKEN.fullmatch(token) is not None


def check_url(url: Any) -> None:
    """Raise `ValueError` without the value, which can contain a secret."""
    if not is_service_url(url):
        raise ValueError(
            "The URL must begin with http:// or https://, such as https://relayer.example.com, "
            "and have no user name, query or fragment."
        )


def check_token(token: Any) -> str:
    """Return a valid token, or raise `ValueError` without it."""
    if not is_token(token):
        raise ValueError("The token must be visible ASCII characters, without spaces or a newline at its end.")
    return str(token)


def check_headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return headers that can be sent, in lower case; raise `ValueError` without their values."""
    for name, value in headers.items():
        if name.lower() in OWN_HEADERS or not HEADER.fullmatch(f"{name}: {value}"):
            raise ValueError(f"The header {name!r} is set by the client, or not of visible ASCII characters.")
    return {name.lower(): value for name, value in headers.items()}


def key_or_new(key: str | None) -> str:
    """Return the key of a call, by default a new one: the same, however often its request is sent."""
    if key is None:
        return str(uuid4())
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        raise ValueError(
            f"An idempotency key is a string of 1 to 255 visible ASCII characters without commas, not {key!r}. "
            "Omit it for a new one."
        )
    return key


def check_names(kind: str, given: Mapping[str, Any], declared: Any) -> None:
    """Raise `TypeError` for keyword arguments that a TypedDict does not declare."""
    if unknown := given.keys() - declared.__annotations__.keys():
        raise TypeError(f"Unknown {kind}: {', '.join(sorted(unknown))}.")


def list_query(declared: Any, filters: Mapping[str, Any], per_page: int) -> dict[str, Any]:
    """Return the query of a list. The service would ignore a filter that it does not know."""
    check_names("filter", filters, declared)
    return {**filters, "per_page": per_page}


def check_floats(value: Any, *path: Any) -> None:
    """Raise `TypeError` for a float anywhere in a body."""
    if isinstance(value, float):
        advice = "Use an integer or a Decimal; half a coin is int(Decimal('0.5') * 10**18)"
        raise TypeError(f"{'.'.join(map(str, path))} is a float, which is rounded. {advice}.")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for name, item in items:
        check_floats(item, *path, name)


def check_deletion(body: Any) -> None:
    """Raise `TypeError` for the response to another operation, which returns an object."""
    if not isinstance(body["data"], str):
        raise TypeError("This is not the response to a deletion.")


def transaction_id(value: str) -> str:
    """Return the ID of a transaction in its canonical form."""
    try:
        return str(UUID(str(value)))
    except ValueError:
        raise InvalidId(f"The ID of a transaction is a UUID, not {value!r}.") from None


def resource_path(kind: str, identifier: str, *rest: str) -> str:
    """Return the path of a resource or of a part of it, whatever characters its ID has.

    Raise `InvalidId` for what would be the path of another resource or operation.
    """
    wrong = [part for part in rest if not part or "/" in part or part in DOTS]
    reserved = RESERVED.get(kind)
    if (
        not identifier
        or identifier.endswith("/")
        or not DOTS.isdisjoint(identifier.split("/"))
        or (reserved and reserved.search(identifier))
    ):
        wrong.append(identifier)
    if wrong:
        raise InvalidId(f"{wrong[0]!r} is not an ID: it would be the path of something else.")
    return "".join(f"/{quote(part, safe='')}" for part in (kind, identifier, *rest))
