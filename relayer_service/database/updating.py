"""Updates of many rows, each with its own values, at a fraction of the cost of `bulk_update`."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import Model

STATEMENT = "UPDATE {table} SET {changes} FROM unnest({arrays}) AS new ({columns}) WHERE {table}.{key} = new.{key}"


def update_each(rows: Sequence[Model], names: Iterable[str]) -> None:
    """Save these fields of rows of one model.

    PostgreSQL gets one statement with an array for each column. `bulk_update` would build, resolve and compile an
    expression for each value, which takes far longer than the statement itself.
    """
    if not rows:
        return
    model, names = type(rows[0]), tuple(sorted(names))
    # Not the proxy, which looks the connection up again with each attribute that a field reads.
    connection = connections[DEFAULT_DB_ALIAS]
    if connection.vendor != "postgresql":
        model._default_manager.bulk_update(rows, names)
        return
    statement, fields = _compile(model, names)
    values = [[field.get_db_prep_save(getattr(row, field.attname), connection) for row in rows] for field in fields]
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


@cache
def _compile(model: type[Model], names: tuple[str, ...]) -> tuple[str, list[Any]]:
    """Return the statement that updates these fields, and the fields of its parameters."""
    connection = connections[DEFAULT_DB_ALIAS]
    fields: list[Any] = [model._meta.pk, *(model._meta.get_field(name) for name in names)]
    kinds = [(field.target_field if field.is_relation else field).rel_db_type(connection) for field in fields]
    columns = [connection.ops.quote_name(field.column) for field in fields]
    statement = STATEMENT.format(
        table=connection.ops.quote_name(model._meta.db_table),
        changes=", ".join(f"{column} = new.{column}" for column in columns[1:]),
        arrays=", ".join(f"%s::{kind}[]" for kind in kinds),
        columns=", ".join(columns),
        key=columns[0],
    )
    return statement, fields
