"""Queries that are built and compiled once: of the hot ones, that takes Django longer than all the rest."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import wraps
from types import SimpleNamespace
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Field, QuerySet, Value
from django.db.models.query import ModelIterable

# The query, its compiler, statement, parameters and converters.
Compiled = tuple[QuerySet[Any], Any, str, Sequence[Any], Any]
# By function, vendor and the lengths of lists. When it is full, the oldest is compiled again.
_compiled: dict[Any, Compiled] = {}
MAX_COMPILED = 1_000


class Parameter(Value):
    """Stands for an argument while its query is compiled; `position` is that of the argument, and within a list."""

    def __init__(self, position: tuple[int, int | None], output_field: Field[Any, Any] | None) -> None:
        super().__init__(position, output_field)

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, list[Any]]:
        return "%s", [self]

    def bound(self, arguments: Sequence[Any], connection: Any) -> Any:
        number, index = self.value
        value = arguments[number] if index is None else arguments[number][index]
        return value if self.field is None else self.field.get_db_prep_value(value, connection)

    @property
    def field(self) -> Field[Any, Any] | None:
        return self._output_field_or_none


def compiled(*fields: Field[Any, Any] | None) -> Callable[[Callable[..., QuerySet[Any]]], Callable[..., list[Any]]]:
    """Make a function that builds a query from its arguments one that returns its rows, and builds it only once.

    Rows are objects or, of a query with `values_list`, tuples.

    The arguments are values or lists of values, in the columns of these fields; integers need none. The function gets
    a `Parameter` in place of each value. With an empty list, there are no rows.
    """

    def decorate(build: Callable[..., QuerySet[Any]]) -> Callable[..., list[Any]]:
        @wraps(build)
        def rows(*arguments: Any) -> list[Any]:
            connection = connections[DEFAULT_DB_ALIAS]
            sizes = tuple(len(each) if isinstance(each, list) else None for each in arguments)
            if 0 in sizes:
                return []
            shape = (build, connection.vendor, sizes)
            found = _compiled.get(shape)
            if found is None:
                found = _compiled[shape] = _compile(build(*_parameters(sizes, fields)), connection)
                if len(_compiled) > MAX_COMPILED:
                    _compiled.pop(next(iter(_compiled)), None)
            return _run(found, arguments, connection)

        return rows

    return decorate


def _parameters(sizes: Sequence[int | None], fields: Sequence[Field[Any, Any] | None]) -> list[Any]:
    typed = [*fields, *[None] * (len(sizes) - len(fields))]
    return [
        Parameter((number, None), field)
        if size is None
        else [Parameter((number, index), field) for index in range(size)]
        for number, (size, field) in enumerate(zip(sizes, typed, strict=True))
    ]


def _compile(query: QuerySet[Any], connection: Any) -> Compiled:
    compiler = query.query.get_compiler(connection=connection)
    statement, parameters = compiler.as_sql()
    converters = compiler.get_converters([column[0] for column in compiler.select])
    return query, compiler, statement, parameters, converters


def _run(found: Compiled, arguments: Sequence[Any], connection: Any) -> list[Any]:
    queryset, original, statement, parameters, converters = found
    bound = [each.bound(arguments, connection) if isinstance(each, Parameter) else each for each in parameters]
    compiler = copy.copy(original)
    compiler.connection = connection
    compiler.as_sql = lambda *args, **kwargs: (statement, tuple(bound))
    compiler.get_converters = lambda expressions: converters
    if not issubclass(queryset._iterable_class, ModelIterable):
        return list(compiler.results_iter(tuple_expected=True))
    query = SimpleNamespace(get_compiler=lambda using: compiler)
    return list(ModelIterable(SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})))
