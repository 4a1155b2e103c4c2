"""Whether the service's database was restored: it may have forgotten keys and transactions that it had accepted."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from relayer_client.generations import on_generation
from relayer_client.outbox.models import OutboxTransaction, RelayerGeneration

logger = logging.getLogger("relayer_client.outbox")

HELD = (
    "Nothing is handed over: the service's database seems to be restored. {}. "
    "Staff must acknowledge this in the admin, under Generations."
)


class Restores:
    """What is known at the start of a run, and what the run reads.

    A response is compared with what was stored before its request: other senders store what they have read meanwhile.
    """

    def __init__(self, db: str) -> None:
        self._rows = RelayerGeneration.objects.using(db)
        self._stored = {row.relayer: row for row in self._rows.order_by("pk")}
        self.known = {relayer: row.generation for relayer, row in self._stored.items()}
        self.evidence = {relayer: row.evidence for relayer, row in self._stored.items() if row.evidence}
        acknowledged = [row.acknowledged_at for row in self._stored.values() if row.acknowledged_at]
        self.acknowledged_at = max(acknowledged, default=None)

    @property
    def hold(self) -> str:
        """Return why nothing may be handed over, or ""."""
        found = "; ".join(f"{relayer}: {evidence}" for relayer, evidence in self.evidence.items())
        return HELD.format(found) if found else ""

    def explain(self, row: OutboxTransaction) -> bool:
        """Return whether staff have acknowledged a restore since the row was stored: it may be missing."""
        return self.acknowledged_at is not None and row.created_at <= self.acknowledged_at

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Compare each response in this block."""
        token = on_generation.set(self._read)
        try:
            yield
        finally:
            on_generation.reset(token)
            self.save()

    def _read(self, relayer: str, generation: int) -> None:
        known = self.known.get(relayer, 0)
        if generation < known:
            self.report(relayer, f"the generation fell from {known} to {generation}")
        self.known[relayer] = max(known, generation)

    def report(self, relayer: str, evidence: str) -> None:
        self.known.setdefault(relayer, 0)
        self.evidence.setdefault(relayer, evidence)

    def save(self) -> None:
        """Store what was read since the last call; what staff have acknowledged meanwhile stays acknowledged."""
        for relayer, generation in self.known.items():
            stored = self._stored.get(relayer)
            if stored is None:
                stored = self._stored[relayer] = RelayerGeneration(relayer=relayer, generation=generation)
                self._rows.bulk_create([stored], ignore_conflicts=True)
            row = self._rows.filter(pk=relayer, acknowledged_at=stored.acknowledged_at)
            if generation > stored.generation:
                stored.generation = generation
                row.filter(generation__lt=generation).update(generation=generation)
            if not stored.evidence and (evidence := self.evidence.get(relayer)):
                stored.evidence = evidence
                row.update(evidence=evidence)
                logger.critical(self.hold)
