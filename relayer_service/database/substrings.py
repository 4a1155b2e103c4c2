"""Searches for any part of a text: by trigrams on PostgreSQL (`AddTrigramIndex`), else by reading the table."""

import re
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from django.db import connection, models
from django.db.models.lookups import Contains, EndsWith

from relayer_service.database.nul import has_nul
from relayer_service.database.prefixes import LOWER, starts_with

# Shorter texts have no trigram.
MIN_LENGTH = 3
# An address as lists show it.
SHORTENED = re.compile(r"(0x[0-9a-f]+)(?:…|\.{3})([0-9a-f]+)", re.ASCII)


class Joined(models.Func):
    """Columns as one text in lower case, each on its own line."""

    output_field = models.TextField()
    template = "LOWER(%(expressions)s)"
    arg_joiner = " || CHAR(10) || "

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = 'LOWER((%(expressions)s) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, arg_joiner=" || E'\\n' || ", **extra)


def contains(columns: Sequence[str], text: str) -> models.Q:
    """Return the condition that a column has a text in it, or is the address that the text shortens."""
    if has_nul(text) or "\n" in text:
        return models.Q(pk__in=[])
    parts = shortened(text) or [text.translate(LOWER)]
    condition = reduce(and_, (_contains(columns, part) for part in parts))
    if len(parts) == 1:
        return condition
    start, end = parts
    return condition & reduce(or_, (starts_with(column, start) & ends_with(column, end) for column in columns))


def _contains(columns: Sequence[str], part: str) -> models.Q:
    if connection.vendor == "postgresql":
        return models.Q(Contains(Joined(*columns), part))
    # Column by column, as SQLite reads them faster: its LIKE ignores the case of ASCII letters.
    return reduce(or_, (models.Q(**{f"{column}__contains": part}) for column in columns))


def ends_with(column: str, text: str) -> models.Q:
    return models.Q(EndsWith(Joined(column), text))


def shortened(text: str) -> list[str]:
    """Return the start and the end of an address that a text shortens, as lists show it; [] if it is another text."""
    found = SHORTENED.fullmatch(text.translate(LOWER))
    return [*found.groups()] if found else []
