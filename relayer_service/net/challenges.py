"""The challenge to a request without the required credential (RFC 6750)."""

from rest_framework.exceptions import PermissionDenied


class InsufficientScope(PermissionDenied):
    """The token lacks a scope; the response names it."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.auth_header = f'Bearer error="insufficient_scope", scope="{scope}"'
