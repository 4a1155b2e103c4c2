"""Which method of the client calls which operation of the OpenAPI document."""

from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def operation(operation_id: str) -> Callable[[Method], Method]:
    """Name the operation that a method calls."""

    def mark(method: Method) -> Method:
        method.operation_id = operation_id  # type: ignore[attr-defined]  # functions accept attributes
        return method

    return mark
