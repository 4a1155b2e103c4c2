"""A clock that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models import DateTimeField, Value
from django.utils import timezone

from relayer_service.database import compiled
from relayer_service.database.clock import DatabaseNow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Forgetful(dict[Any, Any]):
    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep nothing."""


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """It is noon until the test says otherwise, in this process and in the database."""
    made = Clock()

    def as_sql(self: DatabaseNow, compiler: Any, connection: Any, **context: Any) -> Any:
        return compiler.compile(Value(made(), output_field=DateTimeField()))

    monkeypatch.setattr(timezone, "now", made)
    for name in ("as_sqlite", "as_postgresql"):
        monkeypatch.setattr(DatabaseNow, name, as_sql)
    # The time is a constant of each statement: none is kept.
    monkeypatch.setattr(compiled, "_compiled", Forgetful())
    return made
