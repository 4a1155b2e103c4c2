"""Finding a relayer by its id, as its row is now."""

from __future__ import annotations

from django.db.models import QuerySet

from relayer_service.api.exceptions import NotFound
from relayers.models import Relayer

NOT_FOUND = "Relayer with ID {} not found"


def find_relayer(identifier: str, rows: QuerySet[Relayer] | None = None) -> Relayer:
    """Return a relayer as its row is now, of all rows or of these; raise `NotFound` if there is none.

    Never cached: what decides about money reads `paused`, `system_disabled` and `policies` here, at the latest in the
    transaction that decides (with `rows` locked, where two may decide at once).
    """
    found = None
    # PostgreSQL refuses to look for a NUL, which no id has.
    if "\0" not in identifier:
        found = (Relayer.objects.all() if rows is None else rows).filter(identifier=identifier).first()
    if found is None:
        raise NotFound(NOT_FOUND.format(identifier))
    return found
