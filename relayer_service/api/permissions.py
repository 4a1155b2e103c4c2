"""Scopes: a token with scopes is limited to them, one without is limited to the contract's operations."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from relayer_service.net.incoming import InsufficientScope


class HasScope(BasePermission):
    """Rejects a token without the scope of the action before anything is read: the response discloses nothing."""

    def has_permission(self, request: Request, view: Any) -> bool:
        action = getattr(view, "action", None)
        token: Any = request.auth
        if action in {None, "metadata"}:
            # A method that is not allowed; for OPTIONS the action is `metadata`.
            return True
        is_of_extension = action in view.action_extensions and action in view.action_scopes
        if not is_of_extension and not token.scopes:
            return True
        needed = view.action_scopes.get(action, "manage")
        limited = view.limited_scopes.get(action, needed)
        if not token.has_scope(needed) and not token.has_scope(limited):
            raise InsufficientScope(needed)
        return True
