"""Scopes: a token with scopes is limited to them, one without is limited to the contract's operations."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from relayer_service.net.incoming import InsufficientScope

# Scopes that a token can have for some relayers only.
LIMITED_TO_RELAYERS = {"send", "sign"}


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


class IsAllowedRelayer(BasePermission):
    """Rejects an action that sends or signs with a relayer that is not among those of the token.

    Its ID decides, so that the check can come before the relayer is read.
    """

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        if view.action_scopes.get(view.action) not in LIMITED_TO_RELAYERS:
            return True
        token: Any = request.auth
        return not token.allowed_relayers or obj.identifier in token.allowed_relayers
