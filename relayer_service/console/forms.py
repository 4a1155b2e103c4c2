"""The base class of the admin's forms, which write resources in the same way as REST and fleet files."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from django import forms
from django.core.exceptions import ValidationError

from relayer_service.writes import Write

FormClass = TypeVar("FormClass", bound="type[forms.ModelForm[Any]]")


class ResourceForm(forms.ModelForm):  # type: ignore[type-arg]  # Django cannot subscript it
    """Translates the fields that staff have changed on the page they opened into a write."""

    write_class: ClassVar[type[Write[Any]]]
    # Form field names by API name, where they differ.
    field_names: ClassVar[dict[str, str]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound:
            self.write = self.write_class(self.instance)
        self._stored = self._columns()
        if self.instance.pk:
            # The form compares with the values that the page showed, so that it does not revert concurrent changes.
            for name in self.fields.keys() & self._stored.keys():
                self.fields[name].show_hidden_initial = True

    def _columns(self) -> dict[str, Any]:
        return {field.name: field.value_from_object(self.instance) for field in self.instance._meta.concrete_fields}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.instance.pk:
            for name in cleaned.keys() & self._stored.keys() - set(self.changed_data):
                cleaned[name] = getattr(self.instance, name)
        try:
            if values := self.values(cleaned):
                self.write.set(values)
        except ValidationError as error:
            self.add_faults(error)
        return cleaned

    def values(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Return the changed values that the write sets, by API name; Django sets the other columns."""
        return {}

    def add_faults(self, error: ValidationError) -> None:
        for name, texts in error.message_dict.items():
            field = self.field_names.get(name, name)
            self.add_error(field if field in self.fields else None, texts)

    def full_clean(self) -> None:
        super().full_clean()
        if self.is_bound:
            self.write.columns |= {name for name, value in self._columns().items() if value != self._stored[name]}


def declare_fields(fields: Mapping[str, forms.Field]) -> Callable[[FormClass], FormClass]:
    """Return a class decorator that adds fields to a form class, where the admin reads them."""

    def decorate(form: FormClass) -> FormClass:
        subclass: Any = type(form.__name__, (form,), {"__module__": form.__module__, **fields})
        return subclass  # type: ignore[no-any-return]  # `type` returns a class of the same kind

    return decorate
