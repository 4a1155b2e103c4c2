"""Prefix searches with an index, on every engine.

`LIKE 'x%'` uses an index under some collations only. Here a column is compared in lower case and by code point, so
that a prefix is a range: both engines find the same rows, and the index sorts too.
"""

import string
from typing import Any

from django.db import models
from django.db.models.lookups import Exact, GreaterThanOrEqual, LessThan

from relayer_service.database.nul import has_nul

# PostgreSQL indexes at most 2.7 kB of a column, and a URL may be longer.
COMPARED = 200
# ASCII letters only, as in SQLite: the lower case of others depends on the database's collation.
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
SURROGATES = 0xD800, 0xDFFF
LAST = 0x10FFFF


class CaseFolded(models.Func):
    """A column as it is compared and sorted."""

    template = f"LOWER(SUBSTR(%(expressions)s, 1, {COMPARED}))"
    arity = 1
    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = f'LOWER(SUBSTR(%(expressions)s, 1, {COMPARED}) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **extra)


def prefix_index(column: str, *, name: str, key: str = "sequence", where_set: bool = False) -> models.Index:
    """Return the index for searches by a prefix of a column, and for lists in its order; `where_set`: without NULL."""
    condition = models.Q(**{f"{column}__isnull": False}) if where_set else None
    return models.Index(CaseFolded(column), key, name=name, condition=condition)


class DigitsOrder(models.Func):
    """A text of at most 99 digits without leading zeros, as it is sorted: by length, then by digit."""

    template = "(SUBSTR('0' || LENGTH(%(expressions)s), -2) || %(expressions)s)"
    arity = 1
    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = "((LPAD(LENGTH(%(expressions)s)::text, 2, '0') || %(expressions)s) COLLATE \"C\")"
        return self.as_sql(compiler, connection, template=template, **extra)


class Scanned(CaseFolded):
    """`CaseFolded` without the index on SQLite, which lacks the statistics to choose the order of the list instead."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template=f"+{self.template}", **extra)


def starts_with(column: str, text: str, folded: type[CaseFolded] = CaseFolded) -> models.Q:
    """Return the condition that a column starts with a text, case-insensitive."""
    if has_nul(text):
        return models.Q(pk__in=[])
    prefix = text[:COMPARED].translate(LOWER)
    # Without NULL, as an index may be.
    condition = models.Q(GreaterThanOrEqual(folded(column), models.Value(prefix)), **{f"{column}__isnull": False})
    if end := after(prefix):
        condition &= models.Q(LessThan(folded(column), models.Value(end)))
    if len(text) > COMPARED:
        condition &= models.Q(**{f"{column}__istartswith": text})
    return condition


def is_folded(column: str, text: str) -> models.Q:
    """Return the condition that a column is compared like a text: for those that are longer, its start alone."""
    return models.Q(Exact(CaseFolded(column), models.Value(text[:COMPARED].translate(LOWER))))


def after(prefix: str) -> str:
    """Return the first text after all those with a prefix; empty if there is none."""
    kept = prefix.rstrip(chr(LAST))
    if not kept:
        return ""
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(SURROGATES[1] + 1 if SURROGATES[0] <= following <= SURROGATES[1] else following)
