"""NUL characters: PostgreSQL rejects text with one, so lookups of such text match nothing, without a query."""

from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import CharField, TextField
from django.db.models.lookups import Exact, In


def has_nul(text: object) -> bool:
    return isinstance(text, str) and "\0" in text


@CharField.register_lookup
@TextField.register_lookup
class TextExact(Exact):
    def as_sql(self, compiler: Any, connection: Any) -> Any:
        if has_nul(self.rhs):
            raise EmptyResultSet
        return super().as_sql(compiler, connection)


@CharField.register_lookup
@TextField.register_lookup
class TextIn(In):
    def get_prep_lookup(self) -> Any:
        wanted = super().get_prep_lookup()
        return [text for text in wanted if not has_nul(text)] if isinstance(wanted, list) else wanted
