"""The single write path of fee tokens and their price sources."""

from collections.abc import Collection, Sequence
from typing import Any, Self

from django.db.models import CharField, prefetch_related_objects
from django.db.models.functions import Cast
from django.utils import timezone
from eth_utils.address import is_address, to_checksum_address

from relayer_service.writes import BATCH_SIZE, Values, Write
from rpc.fees import prices
from rpc.fees.sources import SOURCES
from rpc.models import FeeToken, PriceSource


class FeeTokenWrite(Write[FeeToken]):
    """A fee token to create or change, with the sources to save and delete."""

    model = FeeToken

    def __init__(self, row: FeeToken) -> None:
        super().__init__(row)
        self.saved_sources: list[PriceSource] = []
        self.deleted_sources: list[PriceSource] = []

    def set(self, values: Values) -> None:
        for name, value in values.items():
            if name == "address" and is_address(value):
                value = to_checksum_address(value)
            if value != getattr(self.row, name):
                setattr(self.row, name, value)
                self.note(name, name)

    def check(self, exclude: Collection[str] = ()) -> None:
        """Apply the rules of the model, except uniqueness."""
        self.row.full_clean(exclude=exclude, validate_unique=False, validate_constraints=False)

    def set_sources(
        self, sources: Sequence[PriceSource], saved: Sequence[PriceSource], deleted: Sequence[PriceSource]
    ) -> None:
        """Set all sources of the token, of which `saved` are new or changed."""
        self.saved_sources, self.deleted_sources = [*saved], [*deleted]
        if saved or deleted:
            self.note("sources")
        if self.row.enabled and not sources:
            self.warnings.append(("sources", "a token without a price source is not supported"))
        if self.row.enabled and prices.has_only_pairs([SOURCES[source.kind] for source in sources]):
            self.warnings.append(("sources", f"the token has no price: {prices.ONLY_PAIRS}"))

    @property
    def is_outdated(self) -> bool:
        """Whether the last price is of another token or of other sources."""
        return bool(FeeToken.outdated_by({*self.fields}))

    @classmethod
    def save_rows(cls, writes: Sequence[Self]) -> None:
        changed = [write for write in writes if not write.is_new]
        for write in changed:
            outdated = FeeToken.outdated_by({*write.fields})
            for name, value in outdated.items():
                setattr(write.row, name, value)
            write.columns |= outdated.keys()
        # A token can get the address of another, in any order.
        moved = [write.row.pk for write in changed if "address" in write.columns]
        if moved and len(writes) > 1:
            FeeToken.objects.filter(pk__in=moved).update(address=Cast("pk", CharField(max_length=42)))
        super().save_rows(writes)
        _save_sources(writes)
        # The audit log records the new sources.
        rows: list[Any] = [write.row for write in writes]
        for row in rows:
            row._prefetched_objects_cache = {}
        prefetch_related_objects(rows, "sources")


def _save_sources(writes: Sequence[FeeTokenWrite]) -> None:
    deleted = [source.pk for write in writes for source in write.deleted_sources]
    if deleted:
        PriceSource.objects.filter(pk__in=deleted).delete()
    added = []
    for write in writes:
        for source in write.saved_sources:
            source.token = write.row
            if source.kind == PriceSource.Kind.FIXED and source.rate_set_at is None:
                source.rate_set_at = timezone.now()
            if source._state.adding:
                added.append(source)
            else:
                source.save()
    PriceSource.objects.bulk_create(added, batch_size=BATCH_SIZE)
