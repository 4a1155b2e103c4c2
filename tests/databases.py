"""Databases besides the one of the tests: empty ones, and the oldest schema with a row in every table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from django.db import connection, connections

from relayer_service.database import access

SERVICE = ("relayer_service", "tokens", "signers", "notifications", "relayers", "rpc")
MOMENT = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)
ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"


@contextmanager
def sqlite(alias: str, file: Path) -> Iterator[str]:
    """Name a SQLite file that is made for it."""
    with named(alias, access.sqlite(file, lock_timeout_ms=5_000)):
        yield alias


@contextmanager
def empty(alias: str, folder: Path) -> Iterator[str]:
    """Name an empty database of the engine that the tests run on."""
    if connection.vendor == "sqlite":
        with sqlite(alias, folder / f"{alias}.sqlite3"):
            yield alias
        return
    with created(alias, "CREATE DATABASE {}"):
        yield alias


@contextmanager
def migrated(alias: str, folder: Path) -> Iterator[str]:
    """Name a copy of the database that those of the tests were copied from, of the engine that the tests run on."""
    source = connection.settings_dict["TEST"]["NAME"]
    if connection.vendor == "sqlite":
        with sqlite(alias, Path(shutil.copy(source, folder / f"{alias}.sqlite3"))):
            yield alias
        return
    with created(alias, f"CREATE DATABASE {{}} TEMPLATE {source}"):
        yield alias


@contextmanager
def created(alias: str, statement: str) -> Iterator[None]:
    """Name a database of PostgreSQL that a statement creates."""
    name = f"{connection.settings_dict['NAME']}_{alias}"
    run_patiently(f"DROP DATABASE IF EXISTS {name}", statement.format(name))
    try:
        with named(alias, connection.settings_dict | {"NAME": name}):
            yield
    finally:
        run_patiently(f"DROP DATABASE {name}")


def run_patiently(*statements: str) -> None:
    """Run what takes PostgreSQL longer than a request may, on a busy machine."""
    with connection.cursor() as cursor:
        for statement in ("SET statement_timeout = 0", *statements, "RESET statement_timeout"):
            cursor.execute(statement)


@contextmanager
def named(alias: str, configuration: dict[str, Any]) -> Iterator[None]:
    connections.settings[alias] = connections.configure_settings({"default": configuration})["default"]
    database: Any = connections[alias]
    # Django's tests refuse to connect to a database that was not there when they began.
    database.ensure_connection = partial(connect, database)
    try:
        yield
    finally:
        database.close()
        if database.vendor == "postgresql":
            database.close_pool()
        del connections[alias], connections.settings[alias]


def connect(database: Any) -> None:
    if database.connection is None:
        with database.wrap_database_errors:
            database.connect()


def insert(apps: Any, alias: str, label: str, **values: Any) -> Any:
    return apps.get_model(label)._base_manager.using(alias).create(**values)


def fill(apps: Any, alias: str) -> None:
    """Write a row into every table of the service, by the models of some release."""
    create = partial(insert, apps, alias)
    user = create("auth.User", username="alice", password="!", date_joined=MOMENT)
    create("relayer_service.EncryptionKey", identifier="1", canary="canary")
    create("relayer_service.PeriodicRun", name="heartbeat", slot=7, started_at=MOMENT)
    create("tokens.AccessToken", name="ci", user=user, key="k" * 12, digest="d" * 64, pepper_id="1", created_at=MOMENT)
    signer = create("signers.Signer", identifier="signer", type="plain", secrets={"key": "hunter2"}, created_at=MOMENT)
    hook = create(
        "notifications.Notification",
        identifier="hook",
        url="https://hooks.example.com/",
        signing_key="hunter3",
        created_at=MOMENT,
    )
    delivery = create(
        "notifications.Delivery",
        notification=hook,
        event="notification.test",
        body=b"{}",
        due_at=MOMENT,
        created_at=MOMENT,
    )
    create("notifications.Attempt", delivery=delivery, started_at=MOMENT, milliseconds=5, answer="no\r\n\x01")
    relayer = create(
        "relayers.Relayer",
        identifier="relayer",
        name="Relayer",
        network="sepolia",
        address=ADDRESS,
        signer=signer,
        notification=hook,
        custom_rpc_urls=[{"url": "https://rpc.example.com/hunter4", "weight": 100}],
        policies={"min_balance": 2**128 - 1},
        created_at=MOMENT,
    )
    create("relayers.RelayerHealth", relayer_id=relayer.pk, network="sepolia", due_at=MOMENT)
    token = create("rpc.FeeToken", network="sepolia", symbol="USDC", address=ADDRESS, created_at=MOMENT)
    create("rpc.PriceSource", token=token, kind="fixed", rate_text="3000.5", rate_set_at=MOMENT, max_age_seconds=60)
    create("relayer_service.CallCount", kind="relayer", subject="1", start=MOMENT, outcome="ok", calls=3)


def rows(apps: Any, alias: str) -> dict[str, list[dict[str, Any]]]:
    """Return every row of the service's tables, by table; but for the counts, which are folded at any time."""
    return {
        model._meta.label: list(model._base_manager.using(alias).order_by("pk").values())
        for label in SERVICE
        for model in apps.get_app_config(label).get_models()
        if model._meta.label != "relayer_service.RowDelta"
    }


def secrets(apps: Any, alias: str) -> list[Any]:
    """Return what the sealed columns hold, opened."""
    fields = [
        ("relayer_service.EncryptionKey", "canary"),
        ("signers.Signer", "secrets"),
        ("notifications.Notification", "signing_key"),
        ("relayers.Relayer", "custom_rpc_urls"),
    ]
    return [getattr(apps.get_model(label)._base_manager.using(alias).get(), field) for label, field in fields]


SECRETS = ["canary", {"key": "hunter2"}, "hunter3", [{"url": "https://rpc.example.com/hunter4", "weight": 100}]]
