"""Inserts that are several times as fast as the ORM's: thousands of similar rows, and a row with another."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, cast

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Model

BOTH = """
WITH {condition}new AS (INSERT INTO {table} ({columns}) {values} RETURNING {key}){also}
INSERT INTO {referring} ({referring_columns}) SELECT {key}, {referring_values} FROM new
RETURNING (SELECT {key} FROM new)
"""


def insert_rows(rows: Sequence[Model], unique: str) -> None:
    """Insert rows of one model and set their primary keys, found by the values of another unique column."""
    if not rows:
        return
    model = type(rows[0])
    if connection.vendor != "postgresql":
        model._default_manager.bulk_create(rows)
        return
    fields = [field for field in cast("Any", model)._meta.concrete_fields if not field.primary_key]
    columns = {field.name: [field.pre_save(row, add=True) for row in rows] for field in fields}
    keys = dict(insert(model, {}, columns, returning=[unique, cast("Any", model._meta.pk).column]))
    for row in rows:
        row.pk, row._state.adding, row._state.db = keys[getattr(row, unique)], False, connection.alias


def insert(
    model: type[Model], same: Mapping[str, Any], each: Mapping[str, Sequence[Any]], returning: Sequence[str] = ()
) -> list[Any]:
    """Insert rows with the same values in some columns and a value per row in others; defaults are not applied.

    Return these columns of the new rows, which only PostgreSQL does.
    """
    if not next(iter(each.values())):
        return []
    # Not the proxy, which looks the connection up again with each attribute that a field reads.
    default = connections[DEFAULT_DB_ALIAS]
    statement, fields = _compile(default.vendor, model, tuple(same), tuple(each), tuple(returning))
    constants = [fields[name].get_db_prep_save(value, default) for name, value in same.items()]
    columns = [[fields[name].get_db_prep_save(value, default) for value in values] for name, values in each.items()]
    with default.cursor() as cursor:
        if default.vendor == "postgresql":
            cursor.execute(statement, [*constants, *columns])
            return cursor.fetchall() if returning else []
        cursor.executemany(statement, list(zip(*map(repeat, constants), *columns, strict=False)))
    return []


@cache
def _compile(
    vendor: str, model: type[Model], same: tuple[str, ...], each: tuple[str, ...], returning: tuple[str, ...]
) -> tuple[str, dict[str, Any]]:
    """Return the statement of `insert`, on PostgreSQL one for all rows with an array for each column, and fields."""
    quote, fields = connection.ops.quote_name, {name: cast("Any", model._meta.get_field(name)) for name in same + each}
    names = ", ".join(quote(field.column) for field in fields.values())
    into = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    if vendor != "postgresql":
        return f"{into} VALUES ({', '.join(['%s'] * len(fields))})", fields
    targets = [field.target_field if field.is_relation else field for field in fields.values()]
    kinds = [field.rel_db_type(connection) for field in targets]
    arrays = ", ".join(f"%s::{kind}[]" for kind in kinds[len(same) :])
    aliases = [f"value_{number}" for number in range(len(each))]
    values = ", ".join([*(f"%s::{kind}" for kind in kinds[: len(same)]), *aliases])
    rows = f"SELECT {values} FROM unnest({arrays}) AS rows ({', '.join(aliases)})"  # noqa: S608  # names alone
    columns = f" RETURNING {', '.join(map(quote, returning))}" if returning else ""
    return f"{into} {rows}{columns}", fields


class SqlFragment(NamedTuple):
    """Further parts of a statement, each `name AS (...)`, which can select the key of the inserted row from `new`."""

    parts: str = ""
    parameters: Sequence[Any] = ()


NO_FRAGMENT = SqlFragment()


def insert_both(
    row: Model, referring: Model, reference: str, also: SqlFragment = NO_FRAGMENT, condition: SqlFragment = NO_FRAGMENT
) -> bool:
    """Insert a row, and another whose column `reference` is the key of the first, in one PostgreSQL statement.

    With `condition`, nothing is inserted unless its part `allowed` has a row. Return whether they were inserted.
    """
    columns, values = _columns(row, cast("Any", row._meta.pk).column)
    referring_columns, referring_values = _columns(referring, cast("Any", referring._meta.pk).column, reference)
    statement = _compile_both(
        type(row), columns, type(referring), (reference, *referring_columns), also.parts, condition.parts
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*condition.parameters, *values, *also.parameters, *referring_values])
        found = cursor.fetchone()
    if found is None:
        return False
    (row.pk,) = found
    row._state.adding, row._state.db = False, connection.alias
    return True


def _columns(row: Model, *others: str) -> tuple[tuple[str, ...], list[Any]]:
    """Return the columns of a new row that have a value, but for `others`, and the values. A new row has few."""
    # Not the proxy, which looks the connection up again with each attribute that a field reads.
    default = connections[DEFAULT_DB_ALIAS]
    columns: list[str] = []
    values: list[Any] = []
    for field in cast("Any", row)._meta.concrete_fields:
        if field.column not in others and (value := field.pre_save(row, add=True)) is not None:
            columns.append(field.column)
            values.append(field.get_db_prep_save(value, default))
    return tuple(columns), values


@cache
def _compile_both(
    model: type[Model],
    columns: tuple[str, ...],
    referring: type[Model],
    referring_columns: tuple[str, ...],
    also: str,
    condition: str,
) -> str:
    quote, marks = connection.ops.quote_name, ", ".join(["%s"] * len(columns))
    return BOTH.format(
        condition=f"{condition}, " if condition else "",
        table=quote(model._meta.db_table),
        columns=", ".join(map(quote, columns)),
        values=f"SELECT {marks} FROM allowed" if condition else f"VALUES ({marks})",  # noqa: S608  # marks alone
        key=quote(cast("Any", model._meta.pk).column),
        also=f", {also}" if also else "",
        referring=quote(referring._meta.db_table),
        referring_columns=", ".join(map(quote, referring_columns)),
        referring_values=", ".join(["%s"] * (len(referring_columns) - 1)),
    )
