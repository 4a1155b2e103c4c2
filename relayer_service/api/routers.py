"""The paths of the API."""

from rest_framework.routers import SimpleRouter

LIST, LIST_ACTIONS, DETAIL, DETAIL_ACTIONS = SimpleRouter.routes


class ResourceRouter(SimpleRouter):
    """Routes paths with and without a slash at the end, never by redirect.

    An id may hold slashes, so that the route of a resource takes all paths below its list: it comes last.
    """

    routes = [LIST, LIST_ACTIONS, DETAIL_ACTIONS, DETAIL]

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"
