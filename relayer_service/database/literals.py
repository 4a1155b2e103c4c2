"""Constants in the text of a statement, where planners compare them with the condition of a partial index.

SQLite reads the table besides such an index, or does not use it at all, if a constant of its condition is a parameter.
"""

from typing import Any

from django.db.models import Q, Value


class Literal(Value):
    """A number or a text that the code defines; never one from outside."""

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        if isinstance(self.value, str):
            # Doubled for Python's formatting too, which fills in the other parameters.
            return "'{}'".format(self.value.replace("'", "''").replace("%", "%%")), ()
        return str(int(self.value)), ()


def with_literals(condition: Q) -> Q:
    """Return a condition of constants with these in the text of the statement."""
    children: list[Any] = [
        with_literals(child) if isinstance(child, Q) else (child[0], _literal(child[1]))
        for child in condition.children
        if isinstance(child, Q | tuple)
    ]
    return Q.create(children, condition.connector, condition.negated)


def _literal(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    return Literal(value) if isinstance(value, int | str) and not isinstance(value, bool) else value
