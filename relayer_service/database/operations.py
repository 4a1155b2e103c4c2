"""Migration operations for large tables: on PostgreSQL they block neither readers nor writers.

They are Django's for PostgreSQL, also run on SQLite, and can be repeated after an interruption. Put operations on
indexes into separate migrations, with `atomic = False`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres import operations as postgresql
from django.contrib.postgres.indexes import GinIndex
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import AddConstraint
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState as State

from relayer_service.database.substrings import Joined

# Building or dropping an index concurrently waits for earlier transactions, and blocks none.
CONCURRENT = {"lock_timeout": "10min", "statement_timeout": "0"}
# An index is not complete when its build was interrupted.
IS_COMPLETE = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s) AND indrelid = to_regclass(%s)"
HAS_TRIGRAMS = "SELECT 1 FROM pg_opclass WHERE opcname = 'gin_trgm_ops' AND pg_opclass_is_visible(oid)"

logger = logging.getLogger(__name__)


@contextmanager
def session_settings(connection: BaseDatabaseWrapper, **values: str) -> Iterator[None]:
    if connection.vendor != "postgresql":
        yield
        return
    before = {name: _change_setting(connection, name, value) for name, value in values.items()}
    try:
        yield
    finally:
        # A lost connection has lost its settings too.
        if connection.is_usable():
            for name, value in before.items():
                _change_setting(connection, name, value)


def _change_setting(connection: BaseDatabaseWrapper, name: str, value: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        before: str = cursor.fetchone()[0]
        cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
    return before


class AddIndexConcurrently(postgresql.AddIndexConcurrently):
    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        _build(self, schema_editor, to_state.apps.get_model(app_label, self.model_name), self.index)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        _drop(self, schema_editor, self.index.name)


class RemoveIndexConcurrently(postgresql.RemoveIndexConcurrently):
    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        _drop(self, schema_editor, self.name)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        _build(self, schema_editor, to_state.apps.get_model(app_label, self.model_name), index)


class AddTrigramIndex(AddIndexConcurrently):
    """Adds an index for searches of any part of some columns, on PostgreSQL with `pg_trgm`; others read the table.

    Models do not declare it: SQLite, which cannot build it, would try to whenever it remakes the table.
    """

    def __init__(self, model_name: str, name: str, columns: Sequence[str]) -> None:
        super().__init__(model_name, TrigramIndex(Joined(*columns), name=name))

    def state_forwards(self, app_label: str, state: State) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        with session_settings(schema_editor.connection, **CONCURRENT):
            if _has_trigrams(schema_editor.connection):
                super().database_forwards(app_label, schema_editor, from_state, to_state)
                # The planner needs to know how often a text occurs.
                table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
                schema_editor.execute(f"ANALYZE {schema_editor.quote_name(table)}")


class TrigramIndex(GinIndex):
    def create_sql(self, model: Any, schema_editor: Any, using: str = "", **kwargs: Any) -> Any:
        statement = super().create_sql(model, schema_editor, using, **kwargs)
        statement.template = statement.template.replace("%(columns)s", "%(columns)s gin_trgm_ops")
        return statement


class AddUniqueIndexConcurrently(postgresql.NotInTransactionMixin, AddConstraint):
    """Adds a unique constraint with a condition, which is an index in the database."""

    atomic = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        _build(self, schema_editor, to_state.apps.get_model(app_label, self.model_name), self.constraint)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        _drop(self, schema_editor, self.constraint.name)


class AddConstraintNotValid(postgresql.AddConstraintNotValid):
    """Adds a check constraint for new rows. `ValidateConstraint` extends it to all rows.

    Put that into a later migration: in the same transaction it would read the table while it is locked.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        else:
            AddConstraint.database_forwards(self, app_label, schema_editor, from_state, to_state)


class ValidateConstraint(postgresql.ValidateConstraint):
    """Validates the existing rows; on SQLite they were when the constraint was added."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class SetFillFactor(Operation):
    """Leaves room in each page of a PostgreSQL table for the next versions of its rows; the value is in percent.

    An update whose new row fits beside the old one writes to no index. Pages that exist are not rewritten.
    """

    def __init__(self, model_name: str, percent: int) -> None:
        self.model_name, self.percent = model_name, percent

    def state_forwards(self, app_label: str, state: State) -> None: ...

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None:
        if schema_editor.connection.vendor == "postgresql":
            table = to_state.apps.get_model(app_label, self.model_name)._meta.db_table
            schema_editor.execute(f"ALTER TABLE {schema_editor.quote_name(table)} SET (fillfactor = {self.percent})")

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: State, to_state: State) -> None: ...

    def describe(self) -> str:
        return f"Leave room in the pages of {self.model_name}"


def _has_trigrams(connection: BaseDatabaseWrapper) -> bool:
    """Return whether the extension can be used, after creating it if the role may."""
    if connection.vendor != "postgresql":
        return False
    reason = "The extension pg_trgm is in no schema of the search_path."
    with connection.cursor() as cursor:
        try:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
        except DatabaseError as error:
            reason = str(error).splitlines()[0]
        cursor.execute(HAS_TRIGRAMS)
        if cursor.fetchone() is not None:
            return True
    logger.warning("Searches will read the table: %s", reason)
    return False


def _build(operation: Any, schema_editor: Any, model: Any, index: Any) -> None:
    """Build an index, unless an earlier attempt has completed it; drop an incomplete one first."""
    statement = index.create_sql(model, schema_editor)
    if schema_editor.connection.vendor != "postgresql":
        _drop(operation, schema_editor, index.name)
        schema_editor.execute(statement, params=None)
        return
    operation._ensure_not_in_transaction(schema_editor)
    statement.template = statement.template.replace(" INDEX ", " INDEX CONCURRENTLY ", 1)
    with session_settings(schema_editor.connection, **CONCURRENT), schema_editor.connection.cursor() as cursor:
        cursor.execute(IS_COMPLETE, [schema_editor.quote_name(name) for name in (index.name, model._meta.db_table)])
        found = cursor.fetchone()
        if found == (False,):
            _drop(operation, schema_editor, index.name)
        if found != (True,):
            schema_editor.execute(statement, params=None)


def _drop(operation: Any, schema_editor: Any, name: str) -> None:
    concurrently = ""
    if schema_editor.connection.vendor == "postgresql":
        operation._ensure_not_in_transaction(schema_editor)
        concurrently = "CONCURRENTLY "
    with session_settings(schema_editor.connection, **CONCURRENT):
        schema_editor.execute(f"DROP INDEX {concurrently}IF EXISTS {schema_editor.quote_name(name)}")
