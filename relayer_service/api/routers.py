"""The paths of the API."""

from collections.abc import Mapping
from typing import Any

from rest_framework.routers import SimpleRouter

from relayer_service import extensions

LIST, LIST_ACTIONS, DETAIL, DETAIL_ACTIONS = SimpleRouter.routes


class ResourceRouter(SimpleRouter):
    """Routes paths with and without a slash at the end, never by redirect.

    An id may hold slashes, so that the route of a resource takes all paths below its list: it comes last.
    """

    routes = [LIST, LIST_ACTIONS, DETAIL_ACTIONS, DETAIL]

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"

    def get_method_map(self, viewset: Any, method_map: Mapping[str, str]) -> dict[str, str]:
        """Return the actions of a route, without those whose extension is off; a route without actions is none."""
        found = super().get_method_map(viewset, method_map)
        needed = viewset.action_extensions
        return {method: action for method, action in found.items() if extensions.is_on(needed.get(action, ""))}
