"""What the audit log has of something that a test does."""

from collections.abc import Callable
from typing import Any

from relayer_service.models import AuditEntry

UNKNOWN: dict[str, Any] = {
    "actor_kind": "unknown",
    "actor": "",
    "actor_key": "",
    "request_id": "",
    "address": "",
    "reason": "",
}


def written_by(act: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return the entries that something writes, without their own numbers and times."""
    AuditEntry.objects.all().delete()
    act()
    names = [field.name for field in AuditEntry._meta.fields if field.name not in {"id", "at", "object_pk"}]
    return list(AuditEntry.objects.order_by("id").values(*names))
