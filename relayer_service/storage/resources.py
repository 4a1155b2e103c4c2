"""What every resource has: the id that callers use, and its place in lists."""

import re
import uuid
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

MAX_IDENTIFIER_LENGTH = 255
# Of the Unicode categories Cc and Cs.
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def validate_identifier(value: str) -> None:
    if CONTROL_CHARACTER.search(value):
        raise ValidationError("control characters are not allowed here")


def new_identifier() -> str:
    return str(uuid.uuid4())


class Resource(models.Model):
    """A resource of the API. `sequence` is the order of creation, and never changes."""

    sequence = models.BigAutoField(primary_key=True)
    identifier = models.CharField(
        "id",
        max_length=MAX_IDENTIFIER_LENGTH,
        unique=True,
        default=new_identifier,
        validators=[validate_identifier],
        help_text="The id that callers use; it cannot be changed later.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    # What follows the id of a resource in other paths: an id that ends so could not be told from them.
    reserved_ending: ClassVar[re.Pattern[str] | None] = None

    class Meta:
        abstract = True
        ordering = ["sequence"]

    def __str__(self) -> str:
        return self.identifier

    def clean(self) -> None:
        """Refuse a new id that reads as a path below another resource."""
        if self._state.adding and self.reserved_ending and (found := self.reserved_ending.search(self.identifier)):
            raise ValidationError({"identifier": f"an id cannot end with {found[0]}, which is a path of the API"})

    def audited(self) -> dict[str, Any]:
        """Return what the audit log holds of the resource, by the names that API and admin have for its fields."""
        raise NotImplementedError
