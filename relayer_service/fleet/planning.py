"""What a fleet file changes, and changing it: all of it, or nothing."""

import logging
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from relayer_service.fleet.files import FleetFile
from relayer_service.fleet.sections import ChangedMeanwhile, Section, section_classes
from relayer_service.writes import Write

logger = logging.getLogger(__name__)


@dataclass
class Plan:
    """What a file would change, the warnings about it, and what must be confirmed first."""

    sections: list[Section]
    warnings: list[str]
    questions: list[str]

    @property
    def writes(self) -> list[Write[Any]]:
        return [write for section in self.sections for write in section.writes]

    def apply(self) -> None:
        """Make all changes in one transaction; raise `ChangedMeanwhile` where a row is not what the plan saw."""
        try:
            with transaction.atomic():
                for section in self.sections:
                    section.lock()
                    section.save()
        except IntegrityError:
            logger.exception("A fleet file breaks a constraint of the database")
            raise ChangedMeanwhile from None


def plan(document: Any) -> Plan:
    """Check a whole file and find what it changes; raise `Faults` with every fault of it. Nothing is changed."""
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
