"""Pages of logs, which may have a million rows."""

from django.core.paginator import Paginator
from django.utils.functional import cached_property

# So many rows of a log are listed, and so many can be acted on at once.
MAX_LISTED = 10_000


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Django cannot subscript it
    """Lists the newest rows only: to count a million, or to skip half of them, takes as long as to read them."""

    template_name = "admin/newest_pagination.html"

    @cached_property
    def count(self) -> int:
        return int(self.object_list[:MAX_LISTED].count())  # type: ignore[attr-defined]  # it is a queryset

    @property
    def has_more(self) -> bool:
        return self.count == MAX_LISTED
