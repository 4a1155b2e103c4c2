"""Migration operations for large tables: on PostgreSQL they keep neither readers nor writers waiting.

They are Django's own for PostgreSQL, made to run on SQLite too, and to run again after an interrupted attempt. Those
of indexes belong in migrations of their own, with `atomic = False`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from django.contrib.postgres import operations as postgresql
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations import AddConstraint
from django.db.migrations.state import ProjectState
from django.db.models import Index

# An index that is built or dropped concurrently waits for transactions that began before it; nobody waits for it.
CONCURRENT = {"lock_timeout": "10min", "statement_timeout": "0"}
# Whether a table's index is complete, which it is not when its build was interrupted.
IS_COMPLETE = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s) AND indrelid = to_regclass(%s)"


@contextmanager
def session_settings(connection: BaseDatabaseWrapper, **values: str) -> Iterator[None]:
    """Change settings of a PostgreSQL session for a while."""
    if connection.vendor != "postgresql":
        yield
        return
    before = {name: _change_setting(connection, name, value) for name, value in values.items()}
    try:
        yield
    finally:
        # A connection that was lost took its settings along.
        if connection.is_usable():
            for name, value in before.items():
                _change_setting(connection, name, value)


def _change_setting(connection: BaseDatabaseWrapper, name: str, value: str) -> str:
    """Change a setting of the session, and return its former value."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        before: str = cursor.fetchone()[0]
        cursor.execute("SELECT set_config(%s, %s, false)", [name, value])
    return before


class AddIndexConcurrently(postgresql.AddIndexConcurrently):
    """Build an index while its table is read and written."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        _require_no_transaction(self, schema_editor)
        _build(schema_editor, to_state.apps.get_model(app_label, self.model_name), self.index)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        _require_no_transaction(self, schema_editor)
        _drop(schema_editor, self.index.name)


class RemoveIndexConcurrently(postgresql.RemoveIndexConcurrently):
    """Drop an index while its table is read and written."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        _require_no_transaction(self, schema_editor)
        _drop(schema_editor, self.name)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        _require_no_transaction(self, schema_editor)
        index = to_state.models[app_label, self.model_name_lower].get_index_by_name(self.name)
        _build(schema_editor, to_state.apps.get_model(app_label, self.model_name), index)


class AddConstraintNotValid(postgresql.AddConstraintNotValid):
    """Add a check that holds for new rows at once, and for all rows from `ValidateConstraint` on.

    That one belongs in a later migration: in the same transaction it would read the table while it is locked.
    """

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        forwards = (
            super().database_forwards
            if schema_editor.connection.vendor == "postgresql"
            else partial(AddConstraint.database_forwards, self)
        )
        forwards(app_label, schema_editor, from_state, to_state)


class ValidateConstraint(postgresql.ValidateConstraint):
    """Check the rows that a constraint was added after; on SQLite it was checked when it was added."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: ProjectState, to_state: ProjectState
    ) -> None:
        if schema_editor.connection.vendor == "postgresql":
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def _require_no_transaction(operation: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "postgresql":
        operation._ensure_not_in_transaction(schema_editor)


def _build(schema_editor: Any, model: Any, index: Index) -> None:
    """Build an index, unless an interrupted attempt has completed it; what another one left incomplete is dropped."""
    if schema_editor.connection.vendor != "postgresql":
        _drop(schema_editor, index.name)
        schema_editor.add_index(model, index)
        return
    with session_settings(schema_editor.connection, **CONCURRENT), schema_editor.connection.cursor() as cursor:
        cursor.execute(IS_COMPLETE, [schema_editor.quote_name(name) for name in (index.name, model._meta.db_table)])
        found = cursor.fetchone()
        if found == (False,):
            _drop(schema_editor, index.name)
        if found != (True,):
            schema_editor.add_index(model, index, concurrently=True)


def _drop(schema_editor: Any, name: str) -> None:
    concurrently = "CONCURRENTLY " if schema_editor.connection.vendor == "postgresql" else ""
    with session_settings(schema_editor.connection, **CONCURRENT):
        schema_editor.execute(f"DROP INDEX {concurrently}IF EXISTS {schema_editor.quote_name(name)}")
