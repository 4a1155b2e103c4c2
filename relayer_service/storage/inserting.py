"""Inserts that take the ORM several times as long: thousands of rows that are nearly equal, and a row with another."""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, cast

from django.db import connection
from django.db.models import Model

BOTH = """
WITH new AS (INSERT INTO {table} ({columns}) VALUES ({values}) RETURNING {key})
INSERT INTO {referring} ({referring_columns}) SELECT {key}, {referring_values} FROM new
RETURNING (SELECT {key} FROM new)
"""


def insert(model: type[Model], same: Mapping[str, Any], each: Mapping[str, Sequence[Any]]) -> None:
    """Insert rows that have the same values in some columns, and a value for each row in others.

    The caller gives what would be defaults of the model; a column without a value is NULL.
    """
    fields: dict[str, Any] = {name: model._meta.get_field(name) for name in (*same, *each)}
    constants = [fields[name].get_db_prep_save(value, connection) for name, value in same.items()]
    columns = [[fields[name].get_db_prep_save(value, connection) for value in values] for name, values in each.items()]
    if not columns[0]:
        return
    quote = connection.ops.quote_name
    names = ", ".join(quote(field.column) for field in fields.values())
    into = f"INSERT INTO {quote(model._meta.db_table)} ({names})"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # An array for each column, and one statement for all rows.
            types = {name: field.target_field if field.is_relation else field for name, field in fields.items()}
            kinds = [field.rel_db_type(connection) for field in types.values()]
            arrays = ", ".join(f"%s::{kind}[]" for kind in kinds[len(same) :])
            aliases = [f"value_{number}" for number in range(len(each))]
            values = ", ".join([*(f"%s::{kind}" for kind in kinds[: len(same)]), *aliases])
            rows = f"SELECT {values} FROM unnest({arrays}) AS rows ({', '.join(aliases)})"  # noqa: S608  # names alone
            cursor.execute(f"{into} {rows}", [*constants, *columns])
        else:
            marks = ", ".join(["%s"] * len(fields))
            cursor.executemany(f"{into} VALUES ({marks})", list(zip(*map(repeat, constants), *columns, strict=False)))


def insert_both(row: Model, referring: Model, reference: str) -> None:
    """Insert a row, and another whose column `reference` holds the key of the first, in one statement of PostgreSQL.

    So both are there, or neither, also outside of a transaction.
    """
    statement, fields, referring_fields = _compile_both(type(row), type(referring), reference)
    parameters = [*_values(row, fields), *_values(referring, referring_fields)]
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        (row.pk,) = cursor.fetchone()
    row._state.adding, row._state.db = False, connection.alias


def _values(row: Model, fields: Sequence[Any]) -> list[Any]:
    return [field.get_db_prep_save(field.pre_save(row, add=True), connection) for field in fields]


@cache
def _compile_both(model: type[Model], referring: type[Model], reference: str) -> tuple[str, list[Any], list[Any]]:
    """Return the statement, and the fields of both models whose values are its parameters."""
    quote, key = connection.ops.quote_name, cast("Any", model._meta.pk)
    fields: list[Any] = [field for field in model._meta.concrete_fields if field is not key]
    others: list[Any] = [
        field for field in referring._meta.concrete_fields if not field.primary_key and field.column != reference
    ]
    statement = BOTH.format(
        table=quote(model._meta.db_table),
        columns=", ".join(quote(field.column) for field in fields),
        values=", ".join(["%s"] * len(fields)),
        key=quote(key.column),
        referring=quote(referring._meta.db_table),
        referring_columns=", ".join(quote(column) for column in (reference, *(field.column for field in others))),
        referring_values=", ".join(["%s"] * len(others)),
    )
    return statement, fields, others
