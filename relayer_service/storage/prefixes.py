"""Prefixes: rows whose column begins with a text, found by an index on every engine.

`LIKE 'x%'` uses an index under some collations only. A column as it is compared here is in lower case and ordered by
code point, so that a prefix is a range of it: the same rows on both engines, and an index that sorts too.
"""

import string
from typing import Any

from django.db import models
from django.db.models.lookups import GreaterThanOrEqual, LessThan

from relayer_service.storage.nul import has_nul

# PostgreSQL indexes no more than 2.7 kB of a column, and an URL may be longer.
COMPARED = 200
# ASCII letters alone, as SQLite does it: what a database makes of others depends on its collation, and may change.
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Code points of these are no characters.
SURROGATES = 0xD800, 0xDFFF
LAST = 0x10FFFF


class Folded(models.Func):
    """A column as prefixes of it are compared, and as lists are sorted by it."""

    template = f"LOWER(SUBSTR(%(expressions)s, 1, {COMPARED}))"
    arity = 1
    output_field = models.TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        template = f'LOWER(SUBSTR(%(expressions)s, 1, {COMPARED}) COLLATE "C")'
        return self.as_sql(compiler, connection, template=template, **extra)


def prefix_index(column: str, *, name: str, key: str = "sequence") -> models.Index:
    """Return the index that finds rows by a prefix of a column, and lists them in its order."""
    return models.Index(Folded(column), key, name=name)


class Scanned(Folded):
    """As `Folded`, where SQLite is to read rows in the order of a list instead of all that the index has.

    It has no statistics that would tell it which is less; PostgreSQL knows.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        return self.as_sql(compiler, connection, template=f"+{self.template}", **extra)


def starts_with(column: str, text: str, folded: type[Folded] = Folded) -> models.Q:
    """Return the condition that a column begins with a text, in upper or lower case."""
    if has_nul(text):
        return models.Q(pk__in=[])
    prefix = text[:COMPARED].translate(LOWER)
    condition = models.Q(GreaterThanOrEqual(folded(column), models.Value(prefix)))
    if end := after(prefix):
        condition &= models.Q(LessThan(folded(column), models.Value(end)))
    if len(text) > COMPARED:
        condition &= models.Q(**{f"{column}__istartswith": text})
    return condition


def after(prefix: str) -> str:
    """Return the first text that comes after all that begin with a prefix, or nothing if there is none."""
    kept = prefix.rstrip(chr(LAST))
    if not kept:
        return ""
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(SURROGATES[1] + 1 if SURROGATES[0] <= following <= SURROGATES[1] else following)
