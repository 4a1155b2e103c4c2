"""The sections of a fleet file. Each is a list of entries about the rows of one model."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.utils.module_loading import import_string

from relayer_service.api.serializers import StrictSerializer
from relayer_service.audit.recording import snapshot
from relayer_service.fleet.files import FleetFile, ReferenceField, identifier_of
from relayer_service.fleet.references import Variables
from relayer_service.writes import BATCH_SIZE, Write


class ConcurrentChange(Exception):
    """A row was changed after the file was checked."""


class Section:
    """A list of one fleet file. A subclass defines the class attributes and `dump_row`.

    `find_rows`, `plan` and `finish` find the changes, `lock` and `save` apply them.
    """

    name: ClassVar[str]
    entry: ClassVar[type[StrictSerializer]]
    queryset: ClassVar[models.QuerySet[Any]]
    write_class: ClassVar[type[Write[Any]]]
    # Columns that the file sets and that are not fields of the entry.
    more_columns: ClassVar[tuple[str, ...]] = ()
    # Fields other than the id that are printed, and so cannot be taken from the environment.
    printed: ClassVar[tuple[str, ...]] = ()
    # Sections whose rows are locked before this one's, as by all writers: two orders would deadlock.
    locked_after: ClassVar[tuple[str, ...]] = ()

    def __init__(self, file: FleetFile, sections: dict[str, Section]) -> None:
        self.file, self.sections = file, sections
        self.entries = file.lists[self.name]
        fields = self.entry().fields
        attributes = {column.attname for column in self.queryset.model._meta.concrete_fields}
        self.columns = [*(name for name in map(str, fields) if name in attributes), *self.more_columns]
        # The section that each field refers to.
        self.references = {name: each.section for name, each in fields.items() if isinstance(each, ReferenceField)}
        # The stored rows by id.
        self.rows: dict[Any, Any] = {}
        # The rows by id that a reference can name, with their planned changes; None where the entry has a fault.
        self.known: dict[Any, Any] = {}
        self.writes: list[Any] = []
        # The columns of the rows by primary key, when the file was checked.
        self.checked: dict[Any, dict[str, Any]] = {}
        # The ids of created and updated rows.
        self.changed: set[Any] = set()

    def find_rows(self) -> None:
        """Read the rows of the entries, and those that entries of other sections refer to."""
        keys = {self.key_of(entry) for entry in self.entries}
        for other in self.sections.values():
            for name, section in other.references.items():
                if section == self.name:
                    keys |= {identifier_of(entry, name) for entry in other.entries}
        self.rows = self.read_rows(keys)
        self.known = dict(self.rows)

    def key_of(self, entry: Any) -> Any:
        return identifier_of(entry)

    def read_rows(self, keys: set[Any]) -> dict[Any, Any]:
        return dict(self.queryset.in_bulk(sorted(filter(None, keys)), field_name="identifier"))

    def plan(self) -> None:
        context = {"rows": self.rows, "sections": self.sections}
        for index, entry in enumerate(self.entries):
            path, key = f"{self.name}[{index}]", self.key_of(entry)
            values, broken = self.file.read(path, self.entry(data=entry, context=context))
            row = self.rows.get(key)
            if row is not None:
                self.checked[row.pk] = self.snapshot(row)
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

    def check_entries(self) -> None:
        """Check each entry by itself, as one of a new row, without the database and without calls."""
        for index, entry in enumerate(self.entries):
            path = f"{self.name}[{index}]"
            context = {"rows": {}, "sections": self.sections}
            values, broken = self.file.read(path, self.entry(data=entry, context=context))
            if not broken:
                self.file.check(path, partial(self.check_new, values))

    def check_new(self, values: dict[str, Any]) -> None:
        """Apply the rules of the model to the values of a new row; raise `ValidationError`."""
        self.queryset.model(identifier=values["id"]).clean()

    def report_warnings(self, path: str, write: Write[Any]) -> None:
        for field, text in write.warnings:
            self.file.warn(f"{path}.{field}", text)
        write.warnings.clear()

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> Write[Any] | None:
        """Return the write of an entry to its row, or to a new one if that is None; None if the entry has a fault."""
        if broken:
            return None
        write = self.write_class(row) if row else self.write_class.of_new_row(values)
        return write if self.file.check(path, lambda: write.change(values)) else None

    def note_change(self, path: str, row: Any) -> None:
        """Warn of the consequences that an update in any section has for the rows of this one."""

    def finish(self) -> None:
        """Apply the checks that need the plan of all entries."""

    def snapshot(self, row: Any) -> dict[str, Any]:
        return {name: row.__dict__[name] for name in self.columns}

    @property
    def updated(self) -> list[Any]:
        return sorted((write for write in self.writes if write.state == "updated"), key=lambda write: write.row.pk)

    def lock(self) -> None:
        """Lock the rows to update; raise `ConcurrentChange` if one has changed since the plan."""
        updated = self.updated
        for start in range(0, len(updated), BATCH_SIZE):
            batch = {write.row.pk: write for write in updated[start : start + BATCH_SIZE]}
            rows = list(self.locked_rows().filter(pk__in=[*batch]).order_by("pk"))
            if {row.pk: self.snapshot(row) for row in rows} != {pk: self.checked[pk] for pk in batch}:
                raise ConcurrentChange
            for row in rows:
                batch[row.pk].before = snapshot(row)

    def locked_rows(self) -> models.QuerySet[Any]:
        rows: models.QuerySet[Any] = self.queryset.model._default_manager.select_for_update()
        return rows

    def save(self) -> None:
        self.write_class.save_all([write for write in self.writes if write.state != "unchanged"])

    @classmethod
    def dump(cls, variables: Variables) -> list[dict[str, Any]]:
        return [cls.dump_row(row, variables) for row in cls.queryset.order_by("pk")]

    @classmethod
    def dump_row(cls, row: Any, variables: Variables) -> dict[str, Any]:
        """Return a row as an entry, with references for its secrets."""
        raise NotImplementedError


def section_classes() -> list[type[Section]]:
    return [import_string(path) for path in settings.FLEET_SECTIONS]
