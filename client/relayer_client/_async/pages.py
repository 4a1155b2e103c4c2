"""Lists that are read page by page, while they are iterated over."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

from relayer_client._async.transport import AsyncTransport
from relayer_client.encoding import decode
from relayer_client.results import Page

Item = TypeVar("Item")


class AsyncPages(Generic[Item]):
    """The items of a list: iterate over it, or over its `pages()`."""

    def __init__(self, transport: AsyncTransport, path: str, kind: type[Item], query: Mapping[str, Any]) -> None:
        self._transport, self._path, self._kind, self._query = transport, path, kind, query

    async def pages(self) -> AsyncIterator[Page[Item]]:
        position: dict[str, Any] = {}
        while True:
            query = {**self._query, **position}
            pagination, page = await self._transport.call("GET", self._path, read=self._read, query=query)
            yield page
            if cursor := pagination.get("next_cursor"):
                position = {"cursor": cursor}
            elif "current_page" in pagination and "cursor" not in position and self._is_full(page.items, pagination):
                position = {"page": pagination["current_page"] + 1}
            else:
                return

    def _read(self, body: Any) -> tuple[Mapping[str, Any], Page[Item]]:
        pagination, items = body["pagination"], tuple(decode(self._kind, item) for item in body["data"])
        return pagination, Page(items=items, total_items=pagination.get("total_items"))

    @staticmethod
    def _is_full(items: tuple[Item, ...], pagination: Mapping[str, Any]) -> bool:
        # The total of a filtered list stops at a limit: it does not say which page is the last.
        return bool(items) and len(items) == int(pagination["per_page"])

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def to_list(self) -> list[Item]:
        """Return the items of all pages."""
        return [item async for item in self]

    async def total(self) -> int | None:
        """Return how many items there are. Totals of filtered lists stop at 10,000."""
        query = {**self._query, "per_page": 1}
        _, page = await self._transport.call("GET", self._path, read=self._read, query=query)
        total: int | None = page.total_items
        return total

    async def first(self) -> Item | None:
        """Return the first item, or None if there is none."""
        async for item in self:
            return item
        return None
