"""The router of the API."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from rest_framework.routers import SimpleRouter

from relayer_service import extensions
from relayer_service.api.operations import extension_of, operation_of

ROUTES: Any = SimpleRouter.routes
LIST, LIST_ACTIONS, DETAIL, DETAIL_ACTIONS = ROUTES


class ResourceRouter(SimpleRouter):
    """Routes paths with and without a trailing slash, without a redirect.

    An id may contain slashes, so the detail route matches every path below the list: it comes last.
    """

    routes = [LIST, LIST_ACTIONS, DETAIL_ACTIONS, DETAIL]

    def __init__(self) -> None:
        super().__init__()
        self.trailing_slash = "/?"

    def get_routes(self, viewset: Any) -> list[Any]:
        """Return the routes; an extension's path below a resource accepts the contract's methods of a resource too.

        An id may end like such a path, and the contract's operations must not depend on extensions. It may also be
        equal to the last part of a path below the list, which accepts all methods of a resource.
        """
        detail = super().get_method_map(viewset, DETAIL.mapping)
        of_contract = {method: action for method, action in detail.items() if not extension_of(viewset, action)}
        enabled = self.get_method_map(viewset, DETAIL.mapping)
        routes: Any = super().get_routes(viewset)
        return [
            self._taking(route, of_contract if route.detail else enabled)
            if route.mapping not in (LIST.mapping, DETAIL.mapping)
            and any(extension_of(viewset, action) for action in route.mapping.values())
            else route
            for route in routes
        ]

    @staticmethod
    def _taking(route: Any, methods: dict[str, str]) -> Any:
        fallthrough = {method: action for method, action in methods.items() if method not in route.mapping}
        return route._replace(
            mapping={**route.mapping, **fallthrough}, initkwargs={**route.initkwargs, "fallthrough": fallthrough}
        )

    def get_method_map(self, viewset: Any, method_map: Mapping[str, str]) -> dict[str, str]:
        found = super().get_method_map(viewset, method_map)
        for action in found.values():
            declared = operation_of(viewset, action)
            # Any token could use it.
            if not declared or (not declared.in_contract and viewset.extension not in extensions.BUILT):
                raise ImproperlyConfigured(f"{viewset.__name__}.{action} needs an operation, and an extension")
        return {name: action for name, action in found.items() if extensions.is_enabled(extension_of(viewset, action))}
