"""A fleet file being checked: its lists of entries, and the faults and warnings found so far; and writing one."""

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import ValidationError as DRFValidationError

from relayer_service.api.exceptions import API_NAMES, flatten
from relayer_service.api.serializers import StrictSerializer, StringField
from relayer_service.fleet.references import FIELD_PATH, Fault, join, resolve

ENTRY_PATH = re.compile(r"(\w+)\[(\d+)\]")


class ReferenceField(StringField):
    """The id of an existing row, or of an entry in an earlier section of `FLEET_SECTIONS`."""

    def __init__(self, section: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.section = section

    def to_internal_value(self, data: Any) -> str:
        identifier = super().to_internal_value(data)
        section = self.context["sections"][self.section]
        if identifier not in section.known:
            noun = section.queryset.model._meta.verbose_name
            raise DRFValidationError(f"there is no {noun} with this id in the file or in the service")
        return identifier


class Faults(Exception):
    """All faults of a file, one per line, each with its path."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.lines = [f"{path}: {text}" if path else text for path, text in faults]
        super().__init__("\n".join(self.lines))


class FleetFile:
    """The lists of a file by name. `printed` has the known lists, each with the fields that are printed."""

    def __init__(
        self, document: Any, printed: Mapping[str, Collection[str]], environment: Mapping[str, str] = os.environ
    ) -> None:
        resolved, self.faults = resolve(document, environment, printed)
        self.warnings: list[str] = []
        # Changes that staff must confirm.
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
            self.fault(join("", name), "unknown field")
        elif not isinstance(value, list):
            self.fault(name, "a list is required")
        else:
            self.lists[name] = value
            identifiers: set[str] = set()
            for index, entry in enumerate(value):
                if (identifier := identifier_of(entry)) and identifier in identifiers:
                    self.fault(f"{name}[{index}].id", "duplicate id")
                identifiers.add(identifier)

    def read(self, path: str, serializer: StrictSerializer) -> tuple[dict[str, Any], set[str]]:
        """Check an entry; return the valid values, and the names of the invalid fields."""
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
        """Apply a rule of a model; add its faults and return False if it fails."""
        try:
            rule()
        except ValidationError as error:
            self._add(path, {API_NAMES.get(name, name): texts for name, texts in error.message_dict.items()})
            return False
        return True

    def fault(self, path: str, text: str) -> None:
        # An unresolved value has its fault already.
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
        match = ENTRY_PATH.match(fault[0])
        return ([*self.lists].index(match[1]), int(match[2])) if match and match[1] in self.lists else (-1, -1)


def identifier_of(entry: Any, name: str = "id") -> str:
    """Return an id in an entry, valid or not; empty if it is missing or not a string."""
    identifier = entry.get(name) if isinstance(entry, dict) else None
    return identifier if isinstance(identifier, str) else ""


def write_private(file: Path, text: str, place: Callable[[str, Path], None] = os.replace) -> None:
    """Write a file that only its owner can read, and that appears complete, in place of any other."""
    if file.exists() and not file.is_file():
        # Such as /dev/stdout.
        file.write_text(text, encoding="utf-8")
        return
    file = file.resolve()
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as temporary:
            temporary.write(text)
            temporary.flush()
            os.fsync(descriptor)
        place(name, file)
    finally:
        Path(name).unlink(missing_ok=True)
