"""What the audit log holds of values: none of a secret, and little of a long one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Model

from relayer_service.storage.encryption import DecryptionError

# What a row is before it is created, and after it is deleted.
NOTHING: Mapping[str, Any] = {}
MAX_LENGTH = 1_000


@dataclass(frozen=True)
class Hidden:
    """A value of which only a part may be shown, or nothing. The digest says whether it is another one."""

    shown: Any
    digest: bytes = field(repr=False)

    @classmethod
    def from_value(cls, value: Any, shown: Any = None) -> Hidden:
        return cls(shown, hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest())


def hidden_column(row: Model, column: str, shown: Any = None) -> Hidden | None:
    """Return what stands for an encrypted column; one that cannot be decrypted is compared by its ciphertext."""
    try:
        value = getattr(row, column)
    except DecryptionError:
        value = row.__dict__[column].text
    return Hidden.from_value(value, shown) if value else None


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return by field what it was and what it is; or a word, where nothing that may be shown is different."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new or (is_empty(old) and is_empty(new)):
            continue
        shown = [plain(old), plain(new)]
        if shown[0] != shown[1]:
            found[name] = shown
        else:
            found[name] = "set" if is_empty(old) else "removed" if is_empty(new) else "changed"
    return found


def is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def plain(value: Any) -> Any:
    """Return a value as JSON holds it, shortened where it is long."""
    if isinstance(value, Hidden):
        return plain(value.shown)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, str | list | dict):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return value if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"
    return value
