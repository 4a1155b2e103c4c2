"""A database that was restored from a backup: it is behind a witness, so all lanes are held before anything is signed.

It cannot know what was sent since the backup. The lanes are sealed, as after a failover.
"""

import logging

from django.db.models import QuerySet

from relayer_service.audit.actors import ActorKind, acting_as
from relayer_service.database.ttl_cache import TTLCache
from relayer_service.storage.selections import Selection
from transactions.models import Lane
from transactions.settlement.nonces import witness
from transactions.settlement.nonces.holds import hold_for_lost_commits

logger = logging.getLogger(__name__)

RESTORED = "The database is older than what was sent: it was restored from a backup."
# How often a process compares all lanes; each one is compared in each of its turns.
SECONDS = 3_600.0
_checks: TTLCache[str, bool] = TTLCache()


def check_all_lanes() -> None:
    """Compare all lanes before a process takes its first turn: one without a witness may also have lost commits."""
    _checks.get_or_read("all", lambda: _hold_if_behind(Lane.objects.exclude(witness="")), SECONDS)


def check(lane: Lane) -> bool:
    """Compare a lane with its witness, before anything is broadcast; return whether all lanes were held.

    A worker that is killed after a commit leaves the witness behind.
    """
    if not lane.witness:
        return False
    generation = witness.read([lane.witness])[lane.witness]
    if generation < lane.generation:
        witness.write(lane)
    return generation > lane.generation and _hold_if_behind(Lane.objects.filter(pk=lane.pk))


def _hold_if_behind(lanes: QuerySet[Lane]) -> bool:
    """Hold all lanes if one of these is behind its witness; return whether it is."""
    # Before the generations: a commit raises them first.
    found = witness.read(lanes.values_list("witness", flat=True))
    current = lanes.values_list("pk", "witness", "generation").iterator()
    behind = [pk for pk, name, generation in current if found.get(name, 0) > generation]
    if not behind:
        return False
    logger.critical("All lanes are held: %s", RESTORED)
    with acting_as(ActorKind.WORKER, "witness"):
        hold_for_lost_commits(Selection.from_queryset(Lane.objects.all()), RESTORED)
    # Last: if this is interrupted, the next check starts over. The old witness is kept for another restore.
    Lane.objects.filter(pk__in=behind).update(witness="")
    return True
