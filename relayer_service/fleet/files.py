"""A fleet file that is being checked: its lists of entries, and every fault and warning found so far."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import ValidationError as DRFValidationError

from relayer_service.api.exceptions import NAMES, flatten
from relayer_service.api.serializers import StrictSerializer, StringField
from relayer_service.fleet.references import FIELD_PATH, Fault, join, resolve

ENTRY_PATH = re.compile(r"(\w+)\[(\d+)\]")


class ReferenceField(StringField):
    """The id of a row that exists, or of an entry in a section that stands before this one in `FLEET_SECTIONS`."""

    def __init__(self, section: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.section = section

    def to_internal_value(self, data: Any) -> str:
        identifier = super().to_internal_value(data)
        section = self.context["sections"][self.section]
        if identifier not in section.known:
            word = section.queryset.model._meta.verbose_name
            raise DRFValidationError(f"there is no {word} with this id, neither in the file nor in the service")
        return identifier


class Faults(Exception):
    """Every fault of a file, one a line, each with its path."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.lines = [f"{path}: {text}" if path else text for path, text in faults]
        super().__init__("\n".join(self.lines))


class FleetFile:
    """The lists of a file by name, each a list of entries.

    `printed` has the names of the lists that a file may have, each with the fields that are printed.
    """

    def __init__(self, document: Any, printed: Mapping[str, Collection[str]]) -> None:
        resolved, self.faults = resolve(document, os.environ, printed)
        self.warnings: list[str] = []
        # What is done only after staff have confirmed it.
        self.questions: list[str] = []
        self._unresolved = {path for path, _ in self.faults}
        self._unresolved_fields = {match[0] for path in self._unresolved if (match := FIELD_PATH.match(path))}
        self.lists: dict[str, list[Any]] = {name: [] for name in printed}
        if isinstance(resolved, dict):
            for name, value in resolved.items():
                self._take(name, value)
        else:
            *names, last = self.lists
            self.fault("", f"an object with some of {', '.join(names)} and {last} is required")

    def _take(self, name: str, value: Any) -> None:
        if name not in self.lists:
            self.fault(join("", name), "this field is not known")
        elif not isinstance(value, list):
            self.fault(name, "a list is required")
        else:
            self.lists[name] = value
            self._find_repeated(name)

    def _find_repeated(self, name: str) -> None:
        seen: set[str] = set()
        for index, entry in enumerate(self.lists[name]):
            identifier = identifier_of(entry)
            if identifier and identifier in seen:
                self.fault(f"{name}[{index}].id", "this id stands twice in the list")
            seen.add(identifier)

    def read(self, path: str, serializer: StrictSerializer) -> tuple[dict[str, Any], set[str]]:
        """Check an entry; return the values that are valid, and the names of the fields that are not."""
        fields = dict(serializer.fields)
        broken = {name for name in fields if f"{path}.{name}" in self._unresolved_fields}
        if serializer.is_valid():
            return {name: value for name, value in serializer.validated_data.items() if name not in broken}, broken
        self._add(path, serializer.errors)
        broken |= set(serializer.errors)
        entry = serializer.initial_data
        if not isinstance(entry, dict):
            return {}, broken | fields.keys()
        sound = (fields.keys() & entry.keys()) - broken
        return {name: fields[name].run_validation(entry[name]) for name in sound}, broken

    def check(self, path: str, rule: Callable[[], None]) -> bool:
        """Apply a rule of a model; record its faults and return False where it is broken."""
        try:
            rule()
        except ValidationError as error:
            # A file calls the column `identifier` by the name that callers know.
            self._add(path, {NAMES.get(name, name): texts for name, texts in error.message_dict.items()})
            return False
        return True

    def fault(self, path: str, text: str) -> None:
        # A value that could not be resolved has its fault already, whatever else is wrong with its text.
        if path not in self._unresolved:
            self.faults.append((path, text))

    def _add(self, path: str, detail: Any) -> None:
        for where, text in flatten(detail, path):
            self.fault(where, text)

    def warn(self, path: str, text: str) -> None:
        self.warnings.append(f"{path}: {text}")

    def ask(self, path: str, text: str) -> None:
        self.questions.append(f"{path}: {text}")

    def refuse_faults(self) -> None:
        if self.faults:
            raise Faults(sorted(self.faults, key=self._place))

    def _place(self, fault: Fault) -> tuple[int, int]:
        """Return where in the file a fault is: the list and the entry."""
        match = ENTRY_PATH.match(fault[0])
        return ([*self.lists].index(match[1]), int(match[2])) if match and match[1] in self.lists else (-1, -1)


def identifier_of(entry: Any, name: str = "id") -> str:
    """Return an id that an entry names, valid or not; empty where it is missing or no string."""
    identifier = entry.get(name) if isinstance(entry, dict) else None
    return identifier if isinstance(identifier, str) else ""
