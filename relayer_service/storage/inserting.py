"""Bulk inserts of rows that differ in a few columns, several times as fast as `bulk_create`."""

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any

from django.db import connection
from django.db.models import Model


def insert(model: type[Model], same: Mapping[str, Any], each: Mapping[str, Sequence[Any]]) -> None:
    """Insert rows with the same values in some columns and a value per row in others; defaults are not applied."""
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
            # One statement for all rows, with an array for each column.
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
