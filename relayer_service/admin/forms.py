"""The base of the admin's forms: of a row that others write too, only what staff have changed is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django import forms

FormClass = TypeVar("FormClass", bound="type[forms.ModelForm[Any]]")


class ResourceForm(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it
    """Knows which columns staff have changed, compared to what their page showed them."""

    changed_columns: set[str]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stored = self._columns()
        if self.instance.pk:
            # With the values that the page showed, so that another's change meanwhile is not reverted.
            for name in self.fields.keys() & self._stored.keys():
                self.fields[name].show_hidden_initial = True

    def _columns(self) -> dict[str, Any]:
        return {field.name: field.value_from_object(self.instance) for field in self.instance._meta.concrete_fields}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.instance.pk:
            for name in cleaned.keys() & self._stored.keys() - set(self.changed_data):
                cleaned[name] = getattr(self.instance, name)
        return cleaned

    def full_clean(self) -> None:
        super().full_clean()
        self.changed_columns = {name for name, value in self._columns().items() if value != self._stored[name]}


def declare_fields(fields: Mapping[str, forms.Field]) -> Callable[[FormClass], FormClass]:
    """Return a class decorator that adds fields to a form; the admin asks the class for them, before any instance."""

    def decorate(form: FormClass) -> FormClass:
        subclass: Any = type(form.__name__, (form,), {"__module__": form.__module__, **fields})
        return subclass  # type: ignore[no-any-return]  # `type` returns a class of the same kind

    return decorate
