"""Writes of resources: REST, the admin, fleet files and commands all write a resource through its `Write`.

Each app has a module `writes` with the class of its resource. A way in translates its input into values by their API
names; the write applies the rules, saves the row, records the change and emits its events:

    write = NotificationWrite.new(values)              # or NotificationWrite(row), then `change(values)`
    with transaction.atomic():
        write.save()
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

from django.db import models

from relayer_service.audit.recording import changed, created, insert_recorded, record, snapshot
from relayer_service.audit.values import NOTHING
from relayer_service.storage.resources import new_identifier

BATCH_SIZE = 500

Row = TypeVar("Row", bound=models.Model)
Values = Mapping[str, Any]


class Write(Generic[Row]):
    """A row to create or to change: what it was before, and the columns to save of one that exists."""

    model: ClassVar[type[models.Model]]
    # Whether a new row and its audit entry are all that is saved, so that one write needs no transaction.
    inserts_one_row: ClassVar[bool] = False

    def __init__(self, row: Row) -> None:
        self.row = row
        self.is_new: bool = row._state.adding
        self.before: Values = NOTHING if self.is_new else snapshot(row)
        self.columns: set[str] = set()
        # The API names of what is different.
        self.fields: list[str] = []
        # What the caller should know of a write that is accepted, each with the path of its field.
        self.warnings: list[tuple[str, str]] = []

    @classmethod
    def new(cls, values: Values) -> Self:
        """Return the write of a new row with these values; raise `ValidationError` where they break a rule."""
        write = cls.of_new_row(values)
        write.change(values)
        return write

    @classmethod
    def of_new_row(cls, values: Values) -> Self:
        """Return the write of a new row, of which only its id is set."""
        row: Any = cls.model(identifier=values.get("id") or new_identifier())
        return cls(row)

    @property
    def state(self) -> str:
        return "created" if self.is_new else "updated" if self.fields else "unchanged"

    def change(self, values: Values) -> None:
        """Set values by their API names, and apply the rules; raise `ValidationError` with the faults by name."""
        self.set(values)
        self.check()

    def set(self, values: Values) -> None:
        """Set values on the row, and add their columns to those that are saved."""
        raise NotImplementedError

    def note(self, name: str, *columns: str) -> None:
        """Add a field that is different, and its columns to those that are saved."""
        self.fields.append(name)
        self.columns.update(columns)

    def check(self) -> None:
        """Apply the rules that depend on more than one value."""
        self.row.clean()

    def lock(self) -> None:
        """Lock what the row is about to refer to; raise `ValidationError` where that is not what was checked."""

    def save(self, reason: str = "") -> Row:
        """Save and record, in the transaction of the caller if it needs one."""
        if self.is_new and self.inserts_one_row:
            insert_recorded(self.row, reason)
        else:
            self.save_all([self], reason)
        return self.row

    @classmethod
    def save_all(cls, writes: Sequence[Self], reason: str = "") -> None:
        """Save and record many writes, in the transaction of the caller."""
        cls.save_rows(writes)
        record(write.entry(reason) for write in writes)

    @classmethod
    def save_rows(cls, writes: Sequence[Self]) -> None:
        new = [write.row for write in writes if write.is_new]
        if len(new) == 1:
            new[0].save(force_insert=True)
        elif new:
            type(new[0])._default_manager.bulk_create(new, batch_size=BATCH_SIZE)
        for write in writes:
            if write.columns and not write.is_new:
                write.row.save(update_fields=write.columns)

    def entry(self, reason: str) -> Any:
        """Return the audit entry of the write; None where nothing is different."""
        return created(self.row, reason) if self.is_new else changed(self.row, self.before, reason=reason)
