"""Planning the changes of a fleet file, and applying all of them or none."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from relayer_service.fleet.files import FleetFile
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


def plan(document: Any) -> Plan:
    """Check a file and return its changes; raise `Faults` with all its faults."""
    classes = section_classes()
    file = FleetFile(document, {each.name: each.printed for each in classes})
    sections: dict[str, Section] = {}
    sections.update({each.name: each(file, sections) for each in classes})
    for section in sections.values():
        section.find_rows()
    for section in sections.values():
        section.plan()
    for section in sections.values():
        section.finish()
    file.refuse_faults()
    return Plan([*sections.values()], file.warnings, file.questions)
