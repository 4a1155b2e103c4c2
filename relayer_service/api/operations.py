"""The declaration of an operation, which the router, permissions, idempotency keys and the OpenAPI document read.

It decorates the method above its `@action`; for an inherited method it is in `@extend_schema_view` of the viewset.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from drf_spectacular.utils import extend_schema

from relayer_service import extensions

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    operation_id: str
    summary: str
    # Other arguments of `extend_schema`. The serializer that `request` documents reads the body; None rejects one.
    schema: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    # What it requires of a token with scopes; outside the contract, of any token.
    scope: str
    # Allows it as well, for the relayers that the token is limited to.
    limited_scope: str = ""
    # Others belong to the `extension` of the viewset: they have no route unless it is enabled.
    in_contract: bool = False
    # It accepts an Idempotency-Key if the `extension` of the viewset is enabled, and otherwise ignores it.
    idempotent: bool = False
    # POST, PUT and PATCH require a body otherwise.
    optional_body: bool = False
    # Of a change, the fields that a token with `allowed_relayers` or with spending rules can set; None: it is refused.
    # The view narrows what has no object to the token's relayers.
    within_relayers: Set[str] | None = None
    within_rules: Set[str] | None = None
    # By status, errors besides those that all operations have, for the OpenAPI document.
    errors: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not {self.scope, self.limited_scope or self.scope} <= extensions.SCOPES.keys():
            raise ImproperlyConfigured(
                f"{self.operation_id}: unknown scope. Use one of: {', '.join(extensions.SCOPES)}"
            )

    def __call__(self, method: Method) -> Method:
        method.operation = self  # type: ignore[attr-defined]
        return extend_schema(operation_id=self.operation_id, summary=self.summary, **self.schema)(method)


# As a decorator.
operation = Operation


def operation_of(viewset: Any, action: str | None) -> Any:
    """Return the `Operation` of an action of a viewset, or of its class; None without an action."""
    return getattr(getattr(viewset, action or "", None), "operation", None)


def extension_of(viewset: Any, action: str | None) -> str:
    """Return the extension that adds an action; an empty name if it is the contract's."""
    declared = operation_of(viewset, action)
    return viewset.extension if declared and not declared.in_contract else ""
