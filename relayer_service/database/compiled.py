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
from django.db.transaction import TransactionManagementError

# The compiler, its converters, the statement and its parameters by function, vendor and the lengths of lists.
_compiled: dict[Any, tuple[Any, Any, str, Sequence[Any]]] = {}


class Parameter(Value):
    """Stands for an argument while its query is compiled: its number and, within a list, its index."""

    def __init__(self, number: int, index: int | None, column: Field[Any, Any] | None) -> None:
        super().__init__((number, index), column)
        self.number, self.index, self.column = number, index, column

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[Any, ...]]:
        return "%s", (self,)

    def bound(self, arguments: Sequence[Any], connection: Any) -> Any:
        value = arguments[self.number] if self.index is None else arguments[self.number][self.index]
        return value if self.column is None else self.column.get_db_prep_value(value, connection)


def compiled(*fields: Field[Any, Any] | None) -> Callable[[Callable[..., QuerySet[Any]]], Callable[..., list[Any]]]:
    """Make a function that builds a query from its arguments one that returns its rows, and builds it only once.

    The arguments are values, or lists of values for the lookup `in`; those whose columns need a conversion have a
    field. The function gets a `Parameter` in place of each. With an empty list, there are no rows.
    """

    def decorate(build: Callable[..., QuerySet[Any]]) -> Callable[..., list[Any]]:
        @wraps(build)
        def rows(*arguments: Any) -> list[Any]:
            if [] in arguments:
                return []
            connection = connections[DEFAULT_DB_ALIAS]
            padded = [_padded(each) if isinstance(each, list) else each for each in arguments]
            sizes = [len(each) if isinstance(each, list) else None for each in padded]
            shape = (build, connection.vendor, *sizes)
            found = _compiled.get(shape)
            if found is None:
                found = _compiled[shape] = _compile(build(*_parameters(sizes, fields)), connection)
            return _run(*found, padded, connection)

        return rows

    return decorate


def _padded(values: list[Any]) -> list[Any]:
    """Repeat the last value up to a power of two: lists of any length have few statements."""
    return [*values, *values[-1:] * ((1 << (len(values) - 1).bit_length()) - len(values))]


def _parameters(sizes: Sequence[int | None], fields: Sequence[Field[Any, Any] | None]) -> list[Any]:
    columns = [*fields, *[None] * (len(sizes) - len(fields))]
    return [
        Parameter(number, None, columns[number])
        if size is None
        else [Parameter(number, index, columns[number]) for index in range(size)]
        for number, size in enumerate(sizes)
    ]


def _compile(query: QuerySet[Any], connection: Any) -> tuple[Any, Any, str, Sequence[Any]]:
    compiler = query.query.get_compiler(connection=connection)
    statement, parameters = compiler.as_sql()
    return compiler, compiler.get_converters([column[0] for column in compiler.select]), statement, parameters


def _run(
    original: Any, converters: Any, statement: str, parameters: Sequence[Any], values: Sequence[Any], connection: Any
) -> list[Any]:
    if original.query.select_for_update and connection.get_autocommit():
        raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
    bound = tuple(each.bound(values, connection) if isinstance(each, Parameter) else each for each in parameters)
    # Each call copies the compiler: threads have other connections and parameters.
    compiler = copy.copy(original)
    compiler.connection, compiler.as_sql = connection, lambda *args, **kwargs: (statement, bound)
    compiler.get_converters = lambda expressions: converters
    query = SimpleNamespace(get_compiler=lambda using: compiler)
    queryset: Any = SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})
    return list(ModelIterable(queryset))
