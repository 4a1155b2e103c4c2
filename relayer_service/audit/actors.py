"""The actor of the current request, task or command."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from django.db.models import TextChoices
from django.http import HttpRequest


class ActorKind(TextChoices):
    USER = "user", "User"
    TOKEN = "token", "Token"
    FLEET_FILE = "fleet file", "Fleet file"
    HEALTH_CHECK = "health check", "Health check"
    COMMAND = "command", "Command"
    WORKER = "worker", "Worker"
    UNKNOWN = "unknown", "Unknown"


@dataclass(frozen=True)
class Actor:
    """A person or program that changes resources. `key` is the public part of a token."""

    kind: ActorKind = ActorKind.UNKNOWN
    name: str = ""
    key: str = ""
    request_id: str = ""
    address: str = ""

    def __str__(self) -> str:
        """Return the kind and the name, as in `user anna`, for events."""
        return self.kind.value if self.name in {"", self.kind} else f"{self.kind.value} {self.name}"


# A function, as most requests change nothing and finding the user of a session costs a query.
finder: ContextVar[Callable[[], Actor]] = ContextVar("actor", default=Actor)


def current() -> Actor:
    return finder.get()()


@contextmanager
def acting_as(kind: ActorKind, name: str, request_id: str = "", key: str = "") -> Iterator[None]:
    """Record the changes of a block as made by this actor."""
    acting = current()
    actor = replace(acting, kind=kind, name=name, key=key, request_id=request_id or acting.request_id)
    token = finder.set(lambda: actor)
    try:
        yield
    finally:
        finder.reset(token)


def from_request(request: HttpRequest, request_id: str) -> Actor:
    sender = Actor(request_id=request_id, address=request.META.get("REMOTE_ADDR", ""))
    if key := getattr(request, "access_token_key", ""):
        return replace(sender, kind=ActorKind.TOKEN, name=getattr(request, "access_token_name", ""), key=key)
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        return replace(sender, kind=ActorKind.USER, name=user.get_username())
    return sender
