"""Searches for any part of a text: by trigrams on PostgreSQL, and by reading the table on SQLite.

A model declares `search_indexes`: the name of each, and the columns that a search with it covers. On PostgreSQL,
triggers keep the columns as one text in a table of that name, whose trigram index finds it. An index of the model's
own table would be written with every health check, and double the WAL. `migrate` creates all this, outside of
migrations: a database without the extension gets it with the first `migrate` after that is created.
"""

import logging
import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from django.apps import apps
from django.db import ProgrammingError, connections, models, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.models.expressions import RawSQL
from django.db.models.lookups import Contains, EndsWith

from relayer_service.storage.nul import has_nul
from relayer_service.storage.operations import CONCURRENT, IS_COMPLETE, session_settings
from relayer_service.storage.prefixes import LOWER, starts_with
from relayer_service.storage.ttl_cache import TTLCache

logger = logging.getLogger(__name__)

EXTENSION = "pg_trgm"
# Shorter texts have no trigram.
MIN_LENGTH = 3
# An address as lists show it.
SHORTENED = re.compile(r"(0x[0-9a-f]+)(?:…|\.{3})([0-9a-f]+)", re.ASCII)
SCHEMA = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = %s"
AVAILABLE = "SELECT 1 FROM pg_available_extensions WHERE name = %s"
CHECK_SECONDS = 60
FOUND = "SELECT row_id FROM {name} WHERE text LIKE %s"
# The columns of a row, of the table or of a trigger, as one text in lower case, each on its own line.
JOINED = "lower(concat_ws(E'\\n', {columns}) COLLATE \"C\")"
PREPARE = [
    "CREATE TABLE IF NOT EXISTS {name} (row_id bigint PRIMARY KEY, text text NOT NULL)",
    """
    CREATE OR REPLACE FUNCTION {name}_note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM {name};
      ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM {name} WHERE row_id = OLD.{key};
      ELSE
        INSERT INTO {name} (row_id, text) VALUES (NEW.{key}, {new})
        ON CONFLICT (row_id) DO UPDATE SET text = EXCLUDED.text;
      END IF;
      RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER {name}_row AFTER INSERT OR DELETE OR UPDATE OF {columns} ON {table}
    FOR EACH ROW EXECUTE FUNCTION {name}_note()
    """,
    "CREATE OR REPLACE TRIGGER {name}_all AFTER TRUNCATE ON {table} EXECUTE FUNCTION {name}_note()",
]
BUILD = [
    # What a trigger wrote in the meantime is newer.
    "INSERT INTO {name} (row_id, text) SELECT {key}, {old} FROM {table} ON CONFLICT DO NOTHING",
    # An interrupted build leaves an invalid index.
    "DROP INDEX CONCURRENTLY IF EXISTS {name}_parts",
    "CREATE INDEX CONCURRENTLY {name}_parts ON {name} USING gin (text {schema}.gin_trgm_ops)",
    # The planner needs to know how often a text occurs.
    "ANALYZE {name}",
]

_built: TTLCache[str, bool] = TTLCache()


class Joined(models.Func):
    """Columns as one text in lower case, each on its own line."""

    output_field = models.TextField()
    template = "LOWER(%(expressions)s)"
    arg_joiner = " || CHAR(10) || "

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = 'LOWER((%(expressions)s) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, arg_joiner=" || E'\\n' || ", **extra)


def contains(model: type[models.Model], columns: Sequence[str], text: str) -> models.Q:
    """Return the condition that a column has a text in it, or is the address that the text shortens."""
    if has_nul(text) or "\n" in text:
        return models.Q(pk__in=[])
    parts = shortened(text) or [text.translate(LOWER)]
    condition = reduce(and_, (_contains(model, columns, part) for part in parts))
    if len(parts) == 1:
        return condition
    start, end = parts
    return condition & reduce(or_, (starts_with(column, start) & ends_with(column, end) for column in columns))


def _contains(model: type[models.Model], columns: Sequence[str], part: str) -> models.Q:
    connection, name = connections["default"], _index_of(model, columns)
    if connection.vendor != "postgresql":
        # Column by column, as SQLite reads them: its LIKE ignores the case of ASCII letters.
        return reduce(or_, (models.Q(**{f"{column}__contains": part}) for column in columns))
    if not name:
        return models.Q(Contains(Joined(*columns), part))
    pattern = f"%{connection.ops.prep_for_like_query(part)}%"
    return models.Q(pk__in=RawSQL(FOUND.format(name=name), [pattern]))  # noqa: S611  # the name is a constant


def ends_with(column: str, text: str) -> models.Q:
    return models.Q(EndsWith(Joined(column), text))


def shortened(text: str) -> list[str]:
    """Return the start and the end of an address that a text shortens, as lists show it; [] if it is another text."""
    found = SHORTENED.fullmatch(text.translate(LOWER))
    return [*found.groups()] if found else []


def can_search(model: type[models.Model], columns: Sequence[str]) -> bool:
    """Return whether any part of these columns can be searched for, at any number of rows."""
    name, connection = _index_of(model, columns), connections["default"]
    if not name or connection.vendor != "postgresql":
        return bool(name)
    return _built.get_or_read(name, lambda: _is_complete(connection, name), CHECK_SECONDS)


def _index_of(model: type[models.Model], columns: Sequence[str]) -> str:
    indexes: dict[str, Sequence[str]] = getattr(model, "search_indexes", {})
    return next((name for name, indexed in indexes.items() if [*indexed] == [*columns]), "")


def _is_complete(connection: BaseDatabaseWrapper, name: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(IS_COMPLETE, [f"{name}_parts", name])
        return bool(cursor.fetchone() == (True,))


def after_migrate(using: str, plan: Any = None, **kwargs: Any) -> None:
    # There is no plan after a flush.
    connection = connections[using]
    if plan is None or connection.vendor != "postgresql" or connection.in_atomic_block:
        return
    loader = MigrationLoader(connection)
    if not loader.graph.nodes.keys() - loader.applied_migrations.keys():
        build(connection)


def build(connection: BaseDatabaseWrapper) -> bool:
    """Build what is missing, without blocking writers for long; return whether the extension is there."""
    schema = _extension_schema(connection)
    if not schema:
        return False
    for model in apps.get_models():
        for name, columns in getattr(model, "search_indexes", {}).items():
            if not _is_complete(connection, name):
                _build(connection, schema, model, name, columns)
    return True


def _extension_schema(connection: BaseDatabaseWrapper) -> str:
    """Return the schema of the extension, which is created if that is allowed; empty without it."""
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA, [EXTENSION])
        found = cursor.fetchone()
        if found is None:
            cursor.execute(AVAILABLE, [EXTENSION])
            if cursor.fetchone() is None:
                logger.warning("Searches match the start of texts only: %s is not installed", EXTENSION)
                return ""
            try:
                with transaction.atomic(using=connection.alias):
                    cursor.execute(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
            except ProgrammingError:
                logger.warning("Searches match the start of texts only: creating %s is not allowed", EXTENSION)
                return ""
            cursor.execute(SCHEMA, [EXTENSION])
            found = cursor.fetchone()
    return str(found[0])


def _build(
    connection: BaseDatabaseWrapper, schema: str, model: type[models.Model], name: str, columns: Sequence[str]
) -> None:
    names = {
        "name": name,
        "table": model._meta.db_table,
        "key": model._meta.pk.column,
        "columns": ", ".join(columns),
        "schema": schema,
        "old": JOINED.format(columns=", ".join(columns)),
        "new": JOINED.format(columns=", ".join(f"NEW.{column}" for column in columns)),
    }
    with connection.cursor() as cursor:
        with transaction.atomic(using=connection.alias):
            for statement in PREPARE:
                cursor.execute(statement.format(**names))
        with session_settings(connection, **CONCURRENT):
            for statement in BUILD:
                cursor.execute(statement.format(**names))
