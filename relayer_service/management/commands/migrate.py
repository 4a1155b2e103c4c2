"""Django's `migrate`, which waits for locks in short turns, so that requests never wait for it longer than a turn.

A change of a table that waits for a long transaction holds up everything that wants the table after it. So it gives up
soon, and comes back: an atomic migration leaves nothing behind, and operations on indexes can run again.
"""

import time
from typing import Any

from django.core.management.commands import migrate
from django.db import OperationalError, connections

from relayer_service.storage.operations import session_settings

# Below PostgreSQL's `deadlock_timeout`: in a deadlock the migration gives up, and never a request. Migrations may take
# longer than requests.
SESSION = {"lock_timeout": "500ms", "statement_timeout": "0"}
PAUSE_SECONDS = 2
RETRY_SECONDS = 300
LOCK_NOT_AVAILABLE = "55P03"


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        deadline = time.monotonic() + RETRY_SECONDS
        with session_settings(connections[options["database"]], **SESSION):
            while not self._migrated(deadline, *args, **options):
                if options["verbosity"] > 0:
                    self.stdout.write(f"\n  A transaction holds the table; trying again in {PAUSE_SECONDS} seconds.")
                time.sleep(PAUSE_SECONDS)

    def _migrated(self, deadline: float, *args: Any, **options: Any) -> bool:
        """Run the migrations, and return whether every lock was acquired."""
        try:
            super().handle(*args, **options)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE or time.monotonic() > deadline:
                raise
            return False
        return True
