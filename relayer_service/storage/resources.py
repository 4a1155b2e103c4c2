"""The base model of resources, and what their columns share."""

import re
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Case, Q, Value, When
from django.utils import timezone

MAX_IDENTIFIER_LENGTH = 255
# Characters of the Unicode categories Cc and Cs.
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def validate_identifier(value: str) -> None:
    if CONTROL_CHARACTER.search(value):
        raise ValidationError("control characters are not allowed here")


def new_identifier() -> str:
    return str(uuid.uuid4())


def text_column(max_length: int, help_text: str, **options: Any) -> "models.CharField[str, str]":
    """Return a column of text that is empty by default, in the database too."""
    options |= {"blank": True, "default": "", "db_default": ""}
    return models.CharField(max_length=max_length, help_text=help_text, **options)


class Resource(models.Model):
    """A resource of the API. `sequence` is the order of creation, and never changes."""

    sequence = models.BigAutoField(primary_key=True)
    identifier = models.CharField(
        "ID",
        max_length=MAX_IDENTIFIER_LENGTH,
        unique=True,
        default=new_identifier,
        validators=[validate_identifier],
        help_text="The ID used by API clients. Cannot be changed after creation.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    # The end of paths below a resource: an id that ends like it would be ambiguous.
    reserved_ending: ClassVar[re.Pattern[str] | None] = None

    class Meta:
        abstract = True
        ordering = ["sequence"]

    def __str__(self) -> str:
        return self.identifier

    def clean(self) -> None:
        if self._state.adding and self.reserved_ending and (found := self.reserved_ending.search(self.identifier)):
            raise ValidationError({"identifier": f"an id must not end with {found[0]}, which is a path of the API"})

    def audited(self) -> dict[str, Any]:
        """Return the fields of the audit log, by the names that API and admin use."""
        raise NotImplementedError


def first_state(conditions: Mapping[str, Q], otherwise: str) -> Case:
    """Return an expression for the first state whose condition holds, computed by the database."""
    cases = [When(condition, then=Value(state)) for state, condition in conditions.items()]
    return Case(*cases, default=Value(otherwise), output_field=models.CharField())
