"""The summary of a form that was not saved: its errors, each with a link to the field."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django import template
from django.core.exceptions import NON_FIELD_ERRORS
from django.forms import BaseForm

register = template.Library()


@dataclass(frozen=True)
class FieldError:
    """An error of a form; `target` is the id of the field's element, empty for a non-field error."""

    text: str
    label: str = ""
    target: str = ""


@register.inclusion_tag("admin/form_errors.html")
def form_errors(form: BaseForm, inline_formsets: Any) -> dict[str, Any]:
    return {"errors": [*errors_of(form), *errors_of_rows(inline_formsets or [])]}


def errors_of(form: BaseForm, name: str = "", target: str = "") -> Iterator[FieldError]:
    """Yield the errors of a form, or of an inline row with a name and a target element."""
    positions = {field: position for position, field in enumerate(form.fields)}
    for field, texts in sorted(form.errors.items(), key=lambda item: positions.get(item[0], -1)):
        label, element = name, target
        if field != NON_FIELD_ERRORS:
            bound = form[field]
            label = f"{name}, {bound.label}" if name else str(bound.label)
            # The first of several inputs.
            element = bound.id_for_label or f"{bound.auto_id}_0"
        yield from (FieldError(str(text), label, element) for text in texts)


def errors_of_rows(inline_formsets: Iterable[Any]) -> Iterator[FieldError]:
    for inline in inline_formsets:
        formset, group = inline.formset, f"{inline.formset.prefix}-group"
        title = str(inline.opts.verbose_name_plural).capitalize()
        yield from (FieldError(str(text), title, group) for text in formset.non_form_errors())
        for number, row in enumerate(formset.forms, start=1):
            yield from errors_of(row, f"{str(inline.opts.verbose_name).capitalize()} {number}", group)
