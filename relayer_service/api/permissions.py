"""Scopes: a token with scopes is limited to them, one without is limited to the contract's operations."""

from collections.abc import Set
from typing import Any, NamedTuple

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from relayer_service.api.error_codes import ErrorCode
from relayer_service.api.exceptions import Forbidden
from relayer_service.api.operations import Operation
from relayer_service.net.incoming import InsufficientScope

# Scopes of actions that change nothing that the limits of a token rest on.
WITHIN_LIMITS = {"read", "rotate", "send", "sign"}


class HasScope(BasePermission):
    """Rejects a token without the scope of the action before anything is read: the response discloses nothing."""

    def has_permission(self, request: Request, view: Any) -> bool:
        token: Any = request.auth
        operation: Operation | None = getattr(view, "operation", None)
        # None for a method that is not allowed.
        if operation is None or (operation.in_contract and not token.scopes):
            return True
        if not token.has_scope(operation.scope) and not token.has_scope(operation.limited_scope):
            raise InsufficientScope(operation.scope)
        return True


class IsWithinLimits(BasePermission):
    """Rejects a change beyond the limits of a token with scopes: its relayers and its spending rules.

    It could otherwise change what they rest on. It can set only the fields that the operation declares.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        token: Any = request.auth
        operation: Operation | None = getattr(view, "operation", None)
        if operation is None or not token.scopes or operation.scope in WITHIN_LIMITS:
            return True
        if token.allowed_relayers:
            self._check(request, operation.within_relayers, "`allowed_relayers`")
        if token.has_spending_rules():
            self._check(request, operation.within_rules, "spending rules")
        return True

    @staticmethod
    def _check(request: Request, allowed: Set[str] | None, limit: str) -> None:
        given = {*request.data} if isinstance(request.data, dict) else set()
        if allowed is None or given - allowed:
            names = ", ".join(sorted(allowed or ())) or "nothing"
            raise Forbidden(f"A token with {limit} cannot change this. It can set: {names}", ErrorCode.TOKEN_LIMITED)


class RelayerInPath(NamedTuple):
    identifier: str


class IsAllowedRelayer(BasePermission):
    """Rejects an action that sends or signs with, or changes, a relayer outside the token's `allowed_relayers`.

    Its ID decides, so that the check can come before the relayer is read: of a `RelayerInPath`.
    """

    def has_object_permission(self, request: Request, view: Any, obj: Any) -> bool:
        token: Any = request.auth
        scope = view.operation.scope
        if scope == "read" or not token.scopes:
            return True
        if scope not in WITHIN_LIMITS:
            self.code = ErrorCode.TOKEN_LIMITED
        return bool(token.reaches(obj.identifier))
