"""Finding rows on a hot path: a statement that the ORM compiles once, run with other values each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)

# What stands in the compiled statement where a value will; no condition of ours is such a text.
MARK = "value of {}"


class Lookup:
    """The rows of a queryset with given values in some columns of text, as tuples of columns.

    To compile the statement takes most of a small query's time, many times what the database needs for it.
    """

    def __init__(self, queryset: QuerySet[Any], by: Sequence[str], columns: Sequence[str]) -> None:
        self.marks = {MARK.format(name): name for name in by}
        conditions = {name: mark for mark, name in self.marks.items()}
        self.queryset = queryset.filter(**conditions).values_list(*columns)
        self.compiled = cache(self._compile)

    def _compile(self, vendor: str) -> tuple[str, list[Any], Any, Any]:
        """Make the statement and what turns its columns into Python's values, once for each kind of database."""
        compiler = self.queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        converters = compiler.get_converters([column for column, _, _ in compiler.select])
        return sql, list(parameters), compiler, converters

    def rows(self, **values: str) -> list[list[Any]]:
        sql, parameters, compiler, converters = self.compiled(connection.vendor)
        filled = [values[self.marks[each]] if each in self.marks else each for each in parameters]
        with connection.cursor() as cursor:
            cursor.execute(sql, filled)
            found = cursor.fetchall()
        return list(compiler.apply_converters(found, converters))


def in_order(model: type[Model], *names: str) -> list[str]:
    """Give columns in the order in which the model has them, as `from_columns` takes them."""
    return [field.attname for field in model._meta.concrete_fields if not names or field.attname in names]


def from_columns(model: type[Row], columns: Sequence[str], values: Sequence[Any]) -> Row:
    """Make a model's row from some of its columns; the others are read when they are asked for."""
    return model.from_db(DEFAULT_DB_ALIAS, columns, values)
