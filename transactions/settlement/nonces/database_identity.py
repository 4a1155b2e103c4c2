"""Which database server commits: after a failover or a restore it is another one, or on another timeline."""

from contextlib import nullcontext

from django.db import NotSupportedError, ProgrammingError, connection, transaction

# A restore and a promoted standby start a new timeline, which is the first part of the name of every WAL file.
IDENTITY = """
    SELECT system_identifier || '-' || left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system()
"""

# Whether the server has revealed it in this process: then a transaction needs no savepoint to ask for it.
_is_revealed = False


def database_identity() -> str:
    """Return the identifier and timeline of the PostgreSQL server; "" where a server does not reveal them."""
    global _is_revealed
    if connection.vendor != "postgresql":
        return ""
    try:
        # In a savepoint, if in a transaction: it goes on if the server refuses.
        with nullcontext() if _is_revealed else transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(IDENTITY)
            _is_revealed = True
            return str(cursor.fetchone()[0])
    except (ProgrammingError, NotSupportedError):
        # Not allowed, or not there. A timeout or a lost connection must not look like another server.
        if _is_revealed and connection.in_atomic_block:
            # No longer: the next transaction asks in a savepoint, as this one is aborted.
            _is_revealed = False
            raise
        return ""
