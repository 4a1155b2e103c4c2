"""Django's `migrate`, with a short lock timeout and retries, so that it blocks no request for long; and the roles.

A schema change that waits for a long transaction blocks every later query on the table. It can be retried safely: an
atomic migration or operation is rolled back, and operations on indexes can run again.
"""

import math
import time
from typing import Any

from django.core.management import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from relayer_service import roles
from relayer_service.configuration.checks import OF_OPERATORS
from relayer_service.database.operations import session_settings

# Below PostgreSQL's `deadlock_timeout`, so that in a deadlock the migration fails, and never a request.
SESSION = {"lock_timeout": "500ms", "statement_timeout": "0"}
PAUSE_SECONDS = 2
RETRY_SECONDS = 300  # from the first failure of each migration
LOCK_NOT_AVAILABLE = "55P03"
# A table that is vacuumed is locked for long. PostgreSQL cancels autovacuum for who has waited for `deadlock_timeout`.
VACUUMED_TIMEOUT = """
SELECT setting::int + 500 || 'ms' FROM pg_settings WHERE name = 'deadlock_timeout' AND EXISTS (
  SELECT FROM pg_locks WHERE mode = 'ShareUpdateExclusiveLock' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        self.deadline, connection = math.inf, connections[options["database"]]
        self._require_last_release(connection)
        with session_settings(connection, **SESSION):
            while not self._migrate(connection, *args, **options):
                if options["verbosity"] > 0:
                    self.stdout.write(f"\n  A transaction locks the table. Retrying in {PAUSE_SECONDS} seconds.")
                time.sleep(PAUSE_SECONDS)
            if not options["plan"] and "auth_group" in connection.introspection.table_names():
                # Django has created the permissions of all apps only now.
                roles.restore(options["database"])

    def check(self, *args: Any, **options: Any) -> None:
        super().check(*args, **{"tags": OF_OPERATORS} | options)

    def migration_progress_callback(self, action: str, *args: Any, **options: Any) -> None:
        if action in {"apply_success", "unapply_success"}:
            self.deadline = math.inf
        super().migration_progress_callback(action, *args, **options)

    def _require_last_release(self, connection: BaseDatabaseWrapper) -> None:
        """Refuse a database with only some of the migrations that are one by now: Django's message names a model."""
        applied, loader = MigrationRecorder(connection).applied_migrations(), MigrationLoader(None)
        for migration in loader.replacements.values():
            missing = [key for key in migration.replaces if key not in applied]
            # Those of an installed package may still be there to be run.
            if 0 < len(missing) < len(migration.replaces) and missing[0] not in loader.disk_migrations:
                raise CommandError(
                    f"The database lacks {'.'.join(missing[0])}, which this release no longer has. "
                    "Run `migrate` of release 0.1.0 first."
                )

    def _migrate(self, connection: BaseDatabaseWrapper, *args: Any, **options: Any) -> bool:
        # Leaving it, the settings of `handle` are restored, also those of a new connection.
        with session_settings(connection, **SESSION | self._longer_timeout(connection)):
            try:
                super().handle(*args, **options)
            except OperationalError as error:
                if connection.in_atomic_block:
                    # A foreign key of a new table is added after the migration, where a failure leaves the block open.
                    connection.close()
                    connection.connect()
                now = time.monotonic()
                self.deadline = min(self.deadline, now + RETRY_SECONDS)
                if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE or now >= self.deadline:
                    raise
                return False
        return True

    def _longer_timeout(self, connection: BaseDatabaseWrapper) -> dict[str, str]:
        """Return the lock timeout after which autovacuum gives way, if an attempt failed while it runs."""
        if connection.vendor != "postgresql" or self.deadline == math.inf:
            return {}
        with connection.cursor() as cursor:
            cursor.execute(VACUUMED_TIMEOUT)
            found = cursor.fetchone()
        return {"lock_timeout": found[0]} if found else {}
