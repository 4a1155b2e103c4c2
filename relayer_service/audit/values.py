"""Values in the audit log: secrets are hidden, long values are truncated."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Model

from relayer_service.storage.encryption import DecryptionError

# The fields of a row before it is created, and after it is deleted.
NOTHING: Mapping[str, Any] = {}
MAX_LENGTH = 1_000
MASKED_PART = "the masked part changed"


@dataclass(frozen=True)
class Hidden:
    """A value that is not shown, or only in part. The digest serves to compare it."""

    shown: Any
    digest: bytes = field(repr=False)

    @classmethod
    def from_value(cls, value: Any, shown: Any = None) -> Hidden:
        return cls(shown, hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest())


def hidden_column(row: Model, column: str, shown: Any = None) -> Hidden | None:
    """Return an encrypted column, hidden; one that cannot be decrypted is compared by its ciphertext."""
    try:
        value = getattr(row, column)
    except DecryptionError:
        value = row.__dict__[column].text
    return Hidden.from_value(value, shown) if value else None


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the old and new value of each changed field; a text where the shown values do not differ."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old == new or (is_empty(old) and is_empty(new)):
            continue
        shown = [plain(old), plain(new)]
        found[name] = shown if shown[0] != shown[1] else same_shown(old, new)
    return found


def same_shown(old: Any, new: Any) -> str:
    """Return the text of a change between values that are shown as the same."""
    if is_empty(old) or is_empty(new):
        return "set" if is_empty(old) else "removed"
    if not isinstance(new, Hidden) or is_empty(new.shown):
        return "changed"
    text = as_text(plain(new))
    return f"{text} → {text}, {MASKED_PART}"


def is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def plain(value: Any) -> Any:
    if isinstance(value, Hidden):
        return plain(value.shown)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, str | list | dict):
        text = as_text(value)
        return value if len(text) <= MAX_LENGTH else f"{text[:MAX_LENGTH]}…"
    return value


def is_truncated(value: Any) -> bool:
    return isinstance(value, str) and len(value) > MAX_LENGTH


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
