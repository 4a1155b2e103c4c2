"""The check of migrations in `make check`: what it refuses on a large table, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import migrations, models
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models.functions import Now, Random

from relayer_service.database import operations
from tests import check_migrations
from tests.upgrade import release

INDEX = models.Index(fields=["name"], name="relayer_by_name")
CHECK = models.CheckConstraint(condition=~models.Q(name="x"), name="relayer_not_x")
UNIQUE = models.UniqueConstraint(fields=["name"], name="relayer_name_once")
ADD_COLUMN = migrations.AddField("Relayer", "note", models.TextField(db_default=""))


def checked(*steps: Operation, app: str = "relayers", **attributes: Any) -> list[str]:
    made = type("New", (Migration,), {"operations": steps, **attributes})("0009_new", app)
    return list(check_migrations.migration_problems(made, ProjectState.from_apps(apps)))


def add(field: models.Field[Any, Any], model: str = "Relayer") -> migrations.AddField:
    return migrations.AddField(model, "note", field)


def alter(name: str, field: models.Field[Any, Any]) -> migrations.AlterField:
    return migrations.AlterField("Relayer", name, field)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (migrations.AddIndex("Relayer", INDEX), "use AddIndexConcurrently"),
        (migrations.SeparateDatabaseAndState([migrations.AddIndex("Relayer", INDEX)]), "use AddIndexConcurrently"),
        (migrations.RemoveIndex("Relayer", "relayer_due"), "use RemoveIndexConcurrently"),
        (migrations.AddConstraint("Relayer", UNIQUE), "read through"),
        (migrations.AddConstraint("Relayer", CHECK), "use AddConstraintNotValid"),
        (migrations.AlterUniqueTogether("Relayer", {("name", "network")}), "locked"),
        (add(models.TextField(db_default="", db_index=True)), "index is built"),
        (add(models.TextField(null=True, unique=True)), "index is built"),
        (add(models.ForeignKey("signers.Signer", models.CASCADE, null=True)), "index is built"),
        (add(models.TextField(default="")), "needs null=True or db_default"),
        (add(models.FloatField(db_default=Random())), "rewritten"),
        (alter("name", models.CharField(max_length=255, db_index=True)), "index is built or dropped"),
        (alter("chain_id", models.PositiveBigIntegerField()), "for NULL"),
        (alter("name", models.IntegerField()), "another type"),
        (alter("network_type", models.CharField(max_length=1)), "another type"),
    ],
)
def test_an_operation_that_keeps_a_large_table_locked_is_refused(operation: Operation, reason: str) -> None:
    (problem,) = checked(operation)
    assert reason in problem


@pytest.mark.parametrize(
    "operation",
    [
        add(models.TextField(null=True)),
        ADD_COLUMN,
        add(models.DateTimeField(db_default=Now())),
        add(models.ForeignKey("signers.Signer", models.CASCADE, null=True, db_index=False)),
        alter("network_type", models.CharField(max_length=200)),
        operations.AddConstraintNotValid("Relayer", CHECK),
        migrations.RemoveConstraint("Relayer", "relayer_identifier_not_empty"),
        migrations.CreateModel("Note", [("id", models.BigAutoField(primary_key=True))]),
    ],
)
def test_an_operation_that_is_quick_at_any_size_is_accepted(operation: Operation) -> None:
    assert checked(operation) == []


def test_concurrent_operations_stand_alone_outside_of_a_transaction() -> None:
    refused = ["concurrent operations belong in a migration of their own with `atomic = False`"]
    for concurrent in (
        operations.AddIndexConcurrently("Relayer", INDEX),
        operations.AddUniqueIndexConcurrently("Relayer", UNIQUE),
    ):
        assert checked(concurrent, atomic=False) == []
        assert checked(concurrent) == checked(ADD_COLUMN, concurrent, atomic=False) == refused


def test_on_a_small_table_a_column_the_last_release_cannot_fill_is_refused() -> None:
    assert checked(add(models.TextField(db_default="", db_index=True), "FeeToken"), app="rpc") == []
    (problem,) = checked(add(models.TextField(), "FeeToken"), app="rpc")
    assert "as the last release writes rows without it" in problem


def test_the_check_reads_what_is_newer_than_the_release_and_skips_tables_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = MigrationLoader(None)
    assert list(check_migrations.problems(loader, release.migrations())) == []
    monkeypatch.setattr(check_migrations, "AddConstraintNotValid", operations.AddUniqueIndexConcurrently)
    first = {("transactions", name) for name in ("0001_squashed_0037_index_of_limits", "0031_metadata_pairs")}
    (problem,) = check_migrations.problems(loader, first)
    assert problem.startswith("transactions/migrations/0038_final_status.py: AddConstraintNotValid on")
    # The first migration of an app creates its tables, and so may add constraints.
    assert list(check_migrations.problems(loader, {("transactions", "none")})) == []
