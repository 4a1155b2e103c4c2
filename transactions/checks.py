"""Deployment checks: settings of the database without which a transaction could be sent twice."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connection

from transactions.settlement.nonces.database_identity import database_identity


@register(Tags.database, deploy=True)
def check_identity(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn if a failover cannot be detected. Needs the database: `check --deploy --database default`."""
    if not databases or connection.vendor != "postgresql" or database_identity():
        return []
    text = "The database does not reveal its system identifier and timeline: lost commits cannot be detected."
    hint = (
        "Allow pg_control_system() and pg_walfile_name(), or run `manage.py hold_lanes --restored` after a failover."
    )
    return [Warning(text, hint=hint, id="transactions.W001")]


@register(Tags.database, deploy=True)
def check_durability(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Reject a server that loses commits when it crashes: it could send a transaction twice."""
    if not databases or connection.vendor != "postgresql":
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW fsync")
            is_off = cursor.fetchone() == ("off",)
    except DatabaseError:
        return []
    hint = "Set fsync = on: after a crash, a nonce whose commit was lost would be used again."
    return [Error("fsync is off in PostgreSQL.", hint=hint, id="transactions.E001")] if is_off else []
