"""Empties the database after a test that commits; Django's command of this name does more than the tests need."""

from functools import cache
from typing import Any

from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connections

from relayer_service.storage import counting

# Filled by `migrate`, and never changed by a test: to fill them again takes far longer than the rest.
KEPT = {"django_content_type", "auth_permission", "auth_group", "auth_group_permissions"}


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        alias: str = options["database"]
        connection = connections[alias]
        tables = connection.introspection.django_table_names(only_existing=True, include_views=False)
        connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), sorted(set(tables) - KEPT)))
        # As Django's does through `post_migrate`.
        for table in counted_tables(alias):
            counting.count(connection, table)


@cache
def counted_tables(alias: str) -> list[str]:
    return counting.counted_tables(connections[alias])
