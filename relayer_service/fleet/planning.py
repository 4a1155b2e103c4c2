"""Planning the changes of a fleet file, and applying all of them or none."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from relayer_service.fleet.files import FleetFile
from relayer_service.fleet.references import Fault
from relayer_service.fleet.sections import ConcurrentChange, Section, section_classes
from relayer_service.writes import Write

logger = logging.getLogger(__name__)


@dataclass
class Plan:
    """The changes of a file, their warnings, and the changes that staff must confirm."""

    sections: list[Section]
    warnings: list[str]
    questions: list[str]

    @property
    def writes(self) -> list[Write[Any]]:
        return [write for section in self.sections for write in section.writes]

    def apply(self) -> None:
        """Apply all changes in one transaction; raise `ConcurrentChange` if a row has changed since the plan."""
        try:
            with transaction.atomic():
                self._lock_and_save()
        except IntegrityError:
            logger.exception("A fleet file violates a database constraint")
            raise ConcurrentChange from None

    def _lock_and_save(self) -> None:
        locked: set[str] = set()
        for section in self.sections:
            before = [each for each in self.sections if each.name in section.locked_after]
            for each in [*before, section]:
                if each.name not in locked:
                    each.lock()
                    locked.add(each.name)
            section.save()


def read_sections(file: FleetFile) -> dict[str, Section]:
    sections: dict[str, Section] = {}
    sections.update({each.name: each(file, sections) for each in section_classes()})
    return sections


def printed_fields() -> dict[str, tuple[str, ...]]:
    return {each.name: each.printed for each in section_classes()}


def find_faults(document: Any, environment: Mapping[str, str]) -> list[Fault]:
    """Return the faults for an empty service that are found without its database and without calls.

    References are resolved with the given environment, not with the process's.
    """
    file = FleetFile(document, printed_fields(), environment)
    sections = read_sections(file)
    for section in sections.values():
        section.known = {section.key_of(entry): None for entry in section.entries}
    for section in sections.values():
        section.check_entries()
    return file.faults


def plan(document: Any) -> Plan:
    """Check a file and return its changes; raise `Faults` with all its faults."""
    file = FleetFile(document, printed_fields())
    sections = read_sections(file)
    for section in sections.values():
        section.find_rows()
    for section in sections.values():
        section.plan()
    for section in sections.values():
        section.finish()
    file.refuse_faults()
    return Plan([*sections.values()], file.warnings, file.questions)
