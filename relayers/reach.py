"""Which relayers a token reaches: all uses of `allowed_relayers` are decided here, with the tags of now."""

from collections.abc import Sequence

from django.db.models import QuerySet

from relayer_service.tags import PREFIX, tags_in
from relayers.models import Relayer
from relayers.models.tags import RelayerTag, tagged


def reached(allowed: Sequence[str], rows: QuerySet[Relayer]) -> QuerySet[Relayer]:
    """Return the relayers of these rows that `allowed_relayers` names by ID or tag; all if it is empty."""
    if not allowed:
        return rows
    named = [each for each in allowed if not each.startswith(PREFIX)]
    if not (tags := tags_in(allowed)):
        return rows.filter(identifier__in=named)
    # With OR, PostgreSQL would read the whole table.
    keys = Relayer.objects.filter(identifier__in=named).order_by().values_list("pk", flat=True)
    return rows.filter(pk__in=keys.union(tagged(tags)))


def reaches(allowed: Sequence[str], identifier: str) -> bool:
    """Return whether `allowed_relayers` names this ID, which no relayer may have yet, or a tag of its relayer."""
    if not allowed or (identifier in allowed and not identifier.startswith(PREFIX)):
        return True
    tags = tags_in(allowed)
    return bool(tags) and RelayerTag.objects.filter(relayer__identifier=identifier, name__in=tags).exists()
