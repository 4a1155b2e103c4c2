from collections.abc import Collection, Sequence

from django.db import models

from relayer_service.storage.selections import Selection
from relayer_service.tags import MAX_TAG_LENGTH, validate_tag

BATCH_SIZE = 500


class RelayerTag(models.Model):
    """A name that groups relayers. A token with `tag:NAME` in `allowed_relayers` reaches those that have it."""

    # Without a constraint: releases before 0.1.0 deleted relayers without their tags. Primary keys are not used again.
    relayer = models.ForeignKey(
        "relayers.Relayer", on_delete=models.CASCADE, related_name="tag_rows", db_constraint=False, db_index=False
    )
    name = models.CharField(max_length=MAX_TAG_LENGTH, validators=[validate_tag])

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["relayer", "name"], name="relayer_tag_once")]
        indexes = [models.Index("name", "relayer", name="relayer_tag_by_name")]

    def __str__(self) -> str:
        return self.name


def tagged(names: Collection[str]) -> models.QuerySet[RelayerTag, int]:
    """Return the primary keys of the relayers with one of these tags, for a subquery."""
    return RelayerTag.objects.filter(name__in=names).values_list("relayer", flat=True)


def save_tags(tags: dict[int, Sequence[str]]) -> None:
    """Replace the tags of locked relayers, by their primary keys."""
    for keys in Selection.from_keys(tags).batches(BATCH_SIZE):
        RelayerTag.objects.filter(relayer__in=keys).delete()
    rows = [RelayerTag(relayer_id=key, name=name) for key, names in tags.items() for name in names]
    RelayerTag.objects.bulk_create(rows, batch_size=BATCH_SIZE)
