"""The sections of a fleet file. Each is a list of entries about the rows of one model."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils.module_loading import import_string

from relayer_service.api.serializers import StrictSerializer
from relayer_service.audit.recording import snapshot
from relayer_service.fleet.files import FleetFile, ReferenceField, identifier_of
from relayer_service.fleet.references import Variables
from relayer_service.writes import BATCH_SIZE, Write


class ChangedMeanwhile(Exception):
    """Somebody else has changed a row between the check of the file and its change."""


class Section:
    """A list of a fleet file. A subclass has at least the attributes below, `change` and `dump_row`.

    An object is for one file: `find_rows`, `plan` and `finish` find what it changes, `lock` and `save` change it.
    """

    name: ClassVar[str]
    entry: ClassVar[type[StrictSerializer]]
    queryset: ClassVar[models.QuerySet[Any]]
    write_class: ClassVar[type[Write[Any]]]
    # What the file sets besides the columns that are fields of the entry.
    more_columns: ClassVar[tuple[str, ...]] = ()
    # The fields besides the id that are printed, and so cannot come from the environment.
    printed: ClassVar[tuple[str, ...]] = ()

    def __init__(self, file: FleetFile, sections: dict[str, Section]) -> None:
        self.file, self.sections = file, sections
        self.entries = file.lists[self.name]
        fields = self.entry().fields
        attributes = {column.attname for column in self.queryset.model._meta.concrete_fields}
        self.columns = [*(name for name in map(str, fields) if name in attributes), *self.more_columns]
        # By field, the section that it refers to.
        self.references = {name: each.section for name, each in fields.items() if isinstance(each, ReferenceField)}
        # By id, the rows as they are stored.
        self.rows: dict[Any, Any] = {}
        # By id, what a reference can name: the row as it will be, or None where its entry has a fault.
        self.known: dict[Any, Any] = {}
        # What each entry without a fault writes.
        self.writes: list[Any] = []
        # By primary key, the columns of the rows as they were when the file was checked.
        self.seen: dict[Any, dict[str, Any]] = {}
        # The ids of what is created or updated.
        self.changed: set[Any] = set()

    def find_rows(self) -> None:
        """Read the rows that the file is about, and those that entries of other sections refer to."""
        keys = {self.key_of(entry) for entry in self.entries}
        for other in self.sections.values():
            for name, section in other.references.items():
                if section == self.name:
                    keys |= {identifier_of(entry, name) for entry in other.entries}
        self.rows = self.read_rows(keys)
        self.known = dict(self.rows)

    def key_of(self, entry: Any) -> Any:
        """Return what an entry names its row by, valid or not."""
        return identifier_of(entry)

    def read_rows(self, keys: set[Any]) -> dict[Any, Any]:
        return dict(self.queryset.in_bulk(sorted(filter(None, keys)), field_name="identifier"))

    def plan(self) -> None:
        """Find what each entry changes, or its faults."""
        context = {"rows": self.rows, "sections": self.sections}
        for index, entry in enumerate(self.entries):
            path, key = f"{self.name}[{index}]", self.key_of(entry)
            values, broken = self.file.read(path, self.entry(data=entry, context=context))
            row = self.rows.get(key)
            if row is not None:
                self.seen[row.pk] = self.snapshot(row)
            write = self.write(path, row, values, broken)
            self.known[key] = write and write.row
            if write:
                self.writes.append(write)
                self.report_warnings(path, write)
                if write.state != "unchanged":
                    self.changed.add(key)
                if write.state == "updated":
                    for section in self.sections.values():
                        section.note_change(path, write.row)

    def report_warnings(self, path: str, write: Write[Any]) -> None:
        """Move the warnings of a write to the file, each with its whole path."""
        for field, text in write.warnings:
            self.file.warn(f"{path}.{field}", text)
        write.warnings.clear()

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> Write[Any] | None:
        """Return what an entry writes: to its row, or to a new one where that is None.

        `values` lacks the fields that are `broken`. Return None where one is, or where a fault was found.
        """
        if broken:
            return None
        write = self.write_class(row) if row else self.write_class.of_new_row(values)
        return write if self.file.check(path, lambda: write.change(values)) else None

    def note_change(self, path: str, row: Any) -> None:
        """Warn of what the update of a row, of any section, means for the rows of this one."""

    def finish(self) -> None:
        """Check what can be checked only once all entries are planned."""

    def snapshot(self, row: Any) -> dict[str, Any]:
        """Return the row's columns, with secrets as they are sealed."""
        return {name: row.__dict__[name] for name in self.columns}

    @property
    def updated(self) -> list[Any]:
        return sorted((write for write in self.writes if write.state == "updated"), key=lambda write: write.row.pk)

    def lock(self) -> None:
        """Lock the rows that change; refuse to go on where one is not what the plan saw."""
        updated = self.updated
        for start in range(0, len(updated), BATCH_SIZE):
            batch = {write.row.pk: write for write in updated[start : start + BATCH_SIZE]}
            rows = list(self.locked_rows().filter(pk__in=[*batch]).order_by("pk"))
            if {row.pk: self.snapshot(row) for row in rows} != {pk: self.seen[pk] for pk in batch}:
                raise ChangedMeanwhile
            for row in rows:
                batch[row.pk].before = snapshot(row)

    def locked_rows(self) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = self.queryset.model._default_manager.select_for_update()
        return rows

    def save(self) -> None:
        self.write_class.save_all([write for write in self.writes if write.state != "unchanged"])

    @classmethod
    def dump(cls, variables: Variables) -> list[dict[str, Any]]:
        """Return all rows as entries, in the order of their creation."""
        return [cls.dump_row(row, variables) for row in cls.queryset.order_by("pk")]

    @classmethod
    def dump_row(cls, row: Any, variables: Variables) -> dict[str, Any]:
        """Return a row as an entry, with references to variables for its secrets."""
        raise NotImplementedError


def section_classes() -> list[type[Section]]:
    return [import_string(path) for path in settings.FLEET_SECTIONS]
