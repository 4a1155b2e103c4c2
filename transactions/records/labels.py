"""What a client finds its transactions by, besides IDs and keys: its own ID, and pairs of strings."""

import re
from collections.abc import Mapping
from typing import Any

from relayer_service.storage.resources import CONTROL_CHARACTER

MAX_PAIRS = 16
MAX_BYTES = 2048
MAX_VALUE = 500
# Without a colon, which separates key and value in searches.
KEY = re.compile(r"[A-Za-z0-9_.-]{1,40}", re.ASCII)


def is_value(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_VALUE and not CONTROL_CHARACTER.search(value)


def size(metadata: Mapping[str, str]) -> int:
    return sum(len(text.encode()) for pair in metadata.items() for text in pair)


def columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a request as columns of its row: NULL without any."""
    return {"external_id": values.get("external_id"), "metadata": values.get("metadata") or None}
