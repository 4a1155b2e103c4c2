"""What an answer says of the credential that a request lacks (RFC 6750)."""

from rest_framework.exceptions import PermissionDenied


class InsufficientScope(PermissionDenied):
    """A token lacks a scope, which the answer names."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.auth_header = f'Bearer error="insufficient_scope", scope="{scope}"'
