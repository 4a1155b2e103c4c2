"""Pages of lists, which may have a million rows."""

from typing import Any

from django.core.paginator import Page, Paginator
from django.utils.functional import cached_property

from relayer_service.storage import counting

# So many rows of a list have pages, and so many can be acted on at once.
MAX_LISTED = 10_000


class NewestPaginator(Paginator):  # type: ignore[type-arg]  # Django cannot subscript it
    """Has pages of the first rows only: to count a million, or to skip half of them, takes as long as to read them."""

    template_name = "admin/newest_pagination.html"
    object_list: Any

    @cached_property
    def total(self) -> int:
        """How many there are: exact of a whole list that the database counts, else no more than are listed."""
        whole = counting.total(self.object_list.model) if not self.object_list.query.where else None
        # In whichever order they are found soonest: Django would sort them first.
        return int(self.object_list.order_by()[:MAX_LISTED].count()) if whole is None else whole

    @cached_property
    def count(self) -> int:
        return min(self.total, MAX_LISTED)

    @property
    def has_more(self) -> bool:
        return self.count == MAX_LISTED

    @property
    def is_exact(self) -> bool:
        return self.total != MAX_LISTED

    def page(self, number: int | str) -> Page[Any]:
        """Return a page. What is skipped before it is skipped in the index, not with all that rows refer to."""
        number = self.validate_number(number)
        first = (number - 1) * self.per_page
        if not first:
            return super().page(number)
        keys = list(self.object_list.values_list("pk", flat=True)[first : min(first + self.per_page, self.count)])
        return Page(self.object_list.filter(pk__in=keys), number, self)
