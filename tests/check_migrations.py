"""Refuse migrations since the last release that stop its processes or keep a large table locked on PostgreSQL."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import django
from django.db import migrations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import NOT_PROVIDED, Value
from django.db.models.functions import Now
from django.db.utils import ConnectionHandler

from relayer_service.database.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    AddUniqueIndexConcurrently,
    RemoveIndexConcurrently,
)
from tests.upgrade import release

# Those that grow with the fleet or with its traffic: reading one through takes longer than a request may wait.
LARGE_TABLES = {
    ("signers", "signer"),
    ("notifications", "notification"),
    ("notifications", "delivery"),
    ("notifications", "attempt"),
    ("relayers", "relayer"),
    ("relayers", "relayerhealth"),
    ("relayers", "relayertag"),
    ("relayer_service", "auditentry"),
    ("relayer_service", "callcount"),
    ("relayer_service", "idempotentrequest"),
    ("rpc", "callcount"),
    ("transactions", "lane"),
    ("transactions", "transaction"),
    ("transactions", "attempt"),
    ("transactions", "statuschange"),
}
CONCURRENT = (AddIndexConcurrently, AddUniqueIndexConcurrently, RemoveIndexConcurrently)
HINT = "CONTRIBUTING.md, Change the schema, has the way to do it."


def main() -> int:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    try:
        found = list(problems(MigrationLoader(None), release.migrations()))
    except release.NoHistory as error:
        found = [str(error)]
    for problem in found:
        print(problem)
    if found:
        print(HINT)
    return 1 if found else 0


def problems(loader: MigrationLoader, released: set[tuple[str, str]]) -> Iterator[str]:
    """Yield what is wrong with the migrations of the apps of this project that are not released."""
    apps = {app for app, _ in released}
    new = [key for key in loader.disk_migrations if key[0] in apps and key not in released]
    created = {
        (app, operation.name_lower)
        for app, name in new
        for operation in loader.disk_migrations[app, name].operations
        if isinstance(operation, migrations.CreateModel)
    }
    for key in new:
        state = loader.project_state(key, at_end=False)
        for problem in migration_problems(loader.disk_migrations[key], state, created):
            yield f"{key[0]}/migrations/{key[1]}.py: {problem}"


def migration_problems(
    migration: migrations.Migration, state: ProjectState, created: Collection[tuple[str, str]] = ()
) -> Iterator[str]:
    """Yield what is wrong with a migration, given the models before it and those that are new since the release."""
    concurrent = [isinstance(each, CONCURRENT) for each in migration.operations]
    if any(concurrent) and (migration.atomic or not all(concurrent)):
        yield "concurrent operations belong in a migration of their own with `atomic = False`"
    for operation in migration.operations:
        for each in flattened([operation]):
            table = (migration.app_label, getattr(each, "model_name", getattr(each, "name", "")).lower())
            if table in created:
                continue
            reasons = [*compatibility_problems(each)]
            if table in LARGE_TABLES:
                reasons += lock_problems(each, migration.app_label, state)
            yield from (f"{type(each).__name__} on {'.'.join(table)}: {reason}" for reason in reasons)
        operation.state_forwards(migration.app_label, state)


def flattened(operations: Iterable[Operation]) -> Iterator[Operation]:
    for operation in operations:
        yield operation
        yield from flattened(getattr(operation, "database_operations", ()))


def compatibility_problems(operation: Operation) -> Iterator[str]:
    """Yield why the last release cannot write to a table after an operation."""
    if isinstance(operation, migrations.AddField):
        field = operation.field
        if not (field.null or field.many_to_many or field.generated or field.db_default is not NOT_PROVIDED):
            yield f"{operation.name} needs null=True or db_default, as the last release writes rows without it"


def lock_problems(operation: Operation, app_label: str, state: ProjectState) -> Iterator[str]:
    """Yield why an operation keeps a large table locked for long."""
    if isinstance(operation, migrations.AddIndex) and not isinstance(operation, AddIndexConcurrently):
        yield "nobody writes while the index is built: use AddIndexConcurrently"
    elif isinstance(operation, migrations.RemoveIndex) and not isinstance(operation, RemoveIndexConcurrently):
        yield "it waits for readers, and others for it: use RemoveIndexConcurrently"
    elif isinstance(operation, migrations.AddConstraint) and not isinstance(
        operation, (AddConstraintNotValid, AddUniqueIndexConcurrently)
    ):
        yield (
            "the table is read through while it is locked: use AddConstraintNotValid for a check, and "
            "AddUniqueIndexConcurrently for a unique constraint with a condition"
        )
    elif isinstance(operation, (migrations.AlterUniqueTogether, migrations.AlterOrderWithRespectTo)):
        yield "it changes the table while it is locked"
    elif isinstance(operation, migrations.AddField):
        yield from added_field_problems(operation.field)
    elif isinstance(operation, migrations.AlterField):
        yield from altered_field_problems(operation, app_label, state)


def added_field_problems(field: Any) -> Iterator[str]:
    if is_indexed(field):
        yield "its index is built while the table is locked: db_index=False, and AddIndexConcurrently after it"
    default = field.db_default
    # `Now` is the same for all rows of a statement.
    if field.generated or (hasattr(default, "resolve_expression") and not isinstance(default, (Value, Now))):
        yield "the table is rewritten for a value that differs by row"


def altered_field_problems(operation: Any, app_label: str, state: ProjectState) -> Iterator[str]:
    changed = state.clone()
    operation.state_forwards(app_label, changed)
    old, new = (
        each.apps.get_model(app_label, operation.model_name)._meta.get_field(operation.name)
        for each in (state, changed)
    )
    if is_indexed(old) != is_indexed(new):
        yield "its index is built or dropped while the table is locked: use the concurrent operations"
    if old.null and not new.null:
        yield "the table is read through for NULL while it is locked"
    if not is_same_column(old, new):
        yield "the table is rewritten for another type of column"


def is_indexed(field: Any) -> bool:
    return bool(field.db_index or field.unique)


def is_same_column(old: Any, new: Any) -> bool:
    """Return whether PostgreSQL stores both alike; a text may become longer."""
    connection = ConnectionHandler({"default": {"ENGINE": "django.db.backends.postgresql"}})["default"]
    if old.get_internal_type() == new.get_internal_type() == "CharField":
        return new.max_length is None or (old.max_length is not None and old.max_length <= new.max_length)
    return bool(old.db_type(connection) == new.db_type(connection))


if __name__ == "__main__":
    sys.exit(main())
