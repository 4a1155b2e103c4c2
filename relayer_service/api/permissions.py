"""What a token must be given before it may do more than the contract offers."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class HasScope(BasePermission):
    """Refuses a token without the scope of an action before anything is looked up, so that it learns nothing."""

    def has_permission(self, request: Request, view: Any) -> bool:
        needed = getattr(view, "action_scopes", {}).get(getattr(view, "action", None))
        token: Any = request.auth
        return needed is None or bool(token and token.has_scope(needed))
