"""Sign in as tests do, and what the audit log has of it."""

from typing import Any

from django.test import Client
from django_otp.oath import TOTP

from relayer_service.models import AuditEntry

LOGIN = "/admin/login/"
PASSWORD = "a-password-for-tests"
# The first second of a window of every limit would depend on its name; none of them ends soon after this.
NOW = 1_800_000_000.0


def sign_in(username: str, password: str = PASSWORD, address: str = "198.51.100.7", client: Any = None) -> Any:
    form = {"username": username, "password": password, "next": "/admin/"}
    return (client or Client()).post(LOGIN, form, REMOTE_ADDR=address)


def fail(username: str, address: str = "198.51.100.7", times: int = 1) -> list[int]:
    return [sign_in(username, "wrong", address).status_code for _ in range(times)]


def recorded() -> list[tuple[str, str, str, str]]:
    """Return actor, object, address and reason of each entry, in their order."""
    entries = AuditEntry.objects.order_by("id").values_list("actor", "object_id", "address", "reason")
    return [(actor, name, address, reason) for actor, name, address, reason in entries]


def code_at(moment: float, key: str) -> str:
    """Return what an authenticator app shows."""
    totp = TOTP(bytes.fromhex(key))
    totp.time = moment
    return f"{totp.token():06}"
