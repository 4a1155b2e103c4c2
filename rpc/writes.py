"""The single write path of fee tokens and their price sources."""

from collections.abc import Collection, Sequence
from typing import Any, Self

from django.db.models import CharField, prefetch_related_objects
from django.db.models.functions import Cast
from django.utils import timezone
from eth_utils.address import is_address, to_checksum_address

from relayer_service.background.tasks import push
from relayer_service.writes import BATCH_SIZE, Values, Write
from rpc.fees import prices
from rpc.fees.sources import SOURCES
from rpc.models import FeeToken, PriceSource
from rpc.tasks import read_price_now


class FeeTokenWrite(Write[FeeToken]):
    """A fee token to create or change, with the sources to save and delete."""

    model = FeeToken

    def __init__(self, row: FeeToken) -> None:
        super().__init__(row)
        self.saved_sources: list[PriceSource] = []
        self.deleted_sources: list[PriceSource] = []

    @classmethod
    def of_new_row(cls, values: Values) -> Self:
        return cls(FeeToken())

    def set(self, values: Values) -> None:
        for name in FeeToken.CONFIGURED:
            value = values.get(name, getattr(self.row, name))
            if name == "address" and is_address(value):
                value = to_checksum_address(value)
            if value != getattr(self.row, name):
                setattr(self.row, name, value)
                self.note(name, name)
        if "sources" in values:
            self.replace_sources(values["sources"])
        if values.get("confirm_rates"):
            self.confirm_rates()

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

    def replace_sources(self, sources: Sequence[PriceSource]) -> None:
        """Set all sources; those that are the same as stored ones, in any order, are kept."""
        removed, kept, added = [] if self.is_new else list(self.row.sources.all()), [], []
        for source in sources:
            same = next((each for each in removed if _values(each) == _values(source)), None)
            if same is None:
                added.append(source)
            else:
                removed.remove(same)
                kept.append(same)
        # A fixed rate keeps its age if another field of its source changes, as in the admin.
        set_at = {source.rate_text: source.rate_set_at for source in removed if source.rate_text}
        # So do the bounds of an unchanged feed.
        bounds = {feed: entry for source in removed for feed, entry in source.feed_bounds.items()}
        for source in added:
            source.rate_set_at = set_at.get(source.rate_text)
            source.feed_bounds = {feed: bounds[feed] for feed in source.feeds if feed in bounds}
        self.set_sources([*kept, *added], added, removed)

    def confirm_rates(self) -> None:
        """Restart the age of all fixed rates."""
        deleted = {source.pk for source in self.deleted_sources}
        stored = [] if self.is_new else [source for source in self.row.sources.all() if source.pk not in deleted]
        self.saved_sources += [source for source in stored if source.kind == PriceSource.Kind.FIXED]
        for source in self.saved_sources:
            if source.kind == PriceSource.Kind.FIXED:
                source.rate_set_at = timezone.now()
        if self.saved_sources and "sources" not in self.fields:
            self.note("sources")

    def save(self, reason: str = "") -> FeeToken:
        """Save and record, and have the price of a changed token read without waiting for the next run."""
        row = super().save(reason)
        if FeeToken.outdated_by({*self.fields}):
            push(read_price_now, row.pk)
        return row

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


def _values(source: PriceSource) -> dict[str, Any]:
    """Return what staff set of a source, to compare it; they may have written an amount with leading zeros."""
    values = source.audited()
    return values | ({"min_liquidity": int(values["min_liquidity"])} if "min_liquidity" in values else {})


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
