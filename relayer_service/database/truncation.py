"""The hour and the day, in UTC, that a time belongs to, as charts group by them."""

from datetime import UTC
from typing import Any

from django.db.models.functions import TruncDay, TruncHour


class HourOf(TruncHour):
    """`TruncHour` in UTC. On SQLite it cuts the text, where Django would call Python for each row."""

    kept, rest = 13, ":00:00"

    def __init__(self, expression: str) -> None:
        super().__init__(expression, tzinfo=UTC)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        sql, params = compiler.compile(self.lhs)
        return f"(SUBSTR({sql}, 1, {self.kept}) || '{self.rest}')", params


class DayOf(HourOf, TruncDay):
    """`TruncDay` in UTC."""

    kind = TruncDay.kind
    kept, rest = 10, " 00:00:00"
