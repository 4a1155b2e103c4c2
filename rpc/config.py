"""Fee tokens in fleet files, with the sources of their prices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.db.models.functions import Cast
from django.utils import timezone

from chain.networks import networks
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import BATCH_SIZE, Change, Section
from rpc.config_entries import FeeTokenEntry, SourceEntry
from rpc.fees import prices
from rpc.fees.sources import SOURCES
from rpc.models import FeeToken, PriceSource


@dataclass
class TokenChange(Change):
    """A fee token as the file wants it. Sources are added and removed, never updated."""

    added: list[PriceSource] = field(default_factory=list)
    removed: list[PriceSource] = field(default_factory=list)


class FeeTokenSection(Section):
    """Fee tokens have no id: a network and a symbol name one."""

    name = "fee_tokens"
    entry = FeeTokenEntry
    queryset = FeeToken.objects.prefetch_related("sources")
    printed = ("network", "symbol")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.seen: set[tuple[str, str]] = set()
        # Addresses by network, except of tokens that the file names: those may change.
        self.taken: set[tuple[str, str]] = set()

    def key_of(self, entry: Any) -> tuple[str, str]:
        return identifier_of(entry, "network"), identifier_of(entry, "symbol")

    def read_rows(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], FeeToken]:
        """Return all tokens of the networks, as no two may have the same address."""
        found = self.queryset.filter(network__in=sorted({network for network, _ in keys} & networks().keys()))
        rows = {(row.network, row.symbol): row for row in found}
        self.taken = {(row.network, row.address) for key, row in rows.items() if key not in keys}
        return rows

    def change(self, path: str, row: FeeToken | None, values: dict[str, Any], broken: set[str]) -> TokenChange | None:
        change = TokenChange(row, self.snapshot(row)) if row else TokenChange(FeeToken())
        token: FeeToken = change.row
        # What is left out becomes the default, except `enabled`: staff may have disabled this token.
        left_out = FeeToken(enabled=token.enabled)
        for name in self.columns:
            setattr(token, name, values.get(name, getattr(left_out, name)))
        sound = not broken
        # What two tokens cannot both have is checked below, against the file and not only against the database.
        sound &= self.file.check(
            path, lambda: token.full_clean(exclude=broken, validate_unique=False, validate_constraints=False)
        )
        is_once = bool(broken & {"network", "symbol"}) or self._claim(
            f"{path}.symbol", self.seen, (token.network, token.symbol), "this token stands twice in the list"
        )
        if is_once and not broken & {"network", "address"}:
            address = (token.network, token.address)
            sound &= self._claim(
                f"{path}.address", self.taken, address, "another token of this network has this address"
            )
        if not (sound and is_once):
            return None
        self._compare(change, values["sources"])
        if token.enabled and not values["sources"]:
            self.file.warn(f"{path}.sources", "a token without a source of its price is not supported")
        if token.enabled and prices.has_pairs_alone([SOURCES[source["kind"]] for source in values["sources"]]):
            self.file.warn(f"{path}.sources", f"the token has no price: {prices.PAIRS_ALONE}")
        return change

    def _claim(self, path: str, taken: set[tuple[str, str]], wanted: tuple[str, str], fault: str) -> bool:
        """Reserve what only one token can have; return False, after reporting the fault, where another has it."""
        if wanted in taken:
            self.file.fault(path, fault)
            return False
        taken.add(wanted)
        return True

    def _compare(self, change: TokenChange, sources: list[dict[str, Any]]) -> None:
        """Record what the entry changes of the token. The order of sources has no meaning."""
        row: FeeToken = change.row
        change.removed = list(row.sources.all()) if row.pk else []
        for source in (PriceSource(**values) for values in sources):
            entry = SourceEntry(source).data
            same = next((each for each in change.removed if SourceEntry(each).data == entry), None)
            if same is None:
                change.added.append(source)
            else:
                change.removed.remove(same)
        # A fixed rate stays as old as it is where something else of its source changes, as in the admin.
        set_at = {source.rate_text: source.rate_set_at for source in change.removed if source.rate_text}
        # So do the bounds of a feed that stays.
        bounds = {feed: entry for source in change.removed for feed, entry in source.feed_bounds.items()}
        for source in change.added:
            source.rate_set_at = set_at.get(source.rate_text)
            source.feed_bounds = {feed: bounds[feed] for feed in source.feeds if feed in bounds}
        if change.seen is None:
            return
        for name in self.columns:
            if getattr(row, name) != change.seen[name]:
                change.note(name, name)
        if change.added or change.removed:
            change.note("sources")
        outdated = FeeToken.outdated_by({*change.fields})
        for name, value in outdated.items():
            setattr(row, name, value)
        change.columns |= outdated.keys()

    def snapshot(self, row: FeeToken) -> dict[str, Any]:
        """Return the token's columns, and those of its sources."""
        return super().snapshot(row) | {"sources": [source.stored for source in row.sources.all()]}

    def locked_rows(self) -> models.QuerySet[Any]:
        sources = models.Prefetch("sources", PriceSource.objects.select_for_update())
        return super().locked_rows().prefetch_related(sources)

    def write(self) -> None:
        # One token may get the address that another had, whichever is written first.
        moved = [change.row.pk for change in self.updated if "address" in change.columns]
        FeeToken.objects.filter(pk__in=moved).update(address=Cast("pk", models.CharField(max_length=42)))
        super().write()
        removed = [source.pk for change in self.changes for source in change.removed]
        PriceSource.objects.filter(pk__in=removed).delete()
        added = []
        for change in self.changes:
            for source in change.added:
                source.token = change.row
                if source.kind == PriceSource.Kind.FIXED and source.rate_set_at is None:
                    source.rate_set_at = timezone.now()
                added.append(source)
        PriceSource.objects.bulk_create(added, batch_size=BATCH_SIZE)
        # The audit log has the sources as they are now.
        written = [change.row for change in self.changes if change.state != "unchanged"]
        for row in written:
            row._prefetched_objects_cache = {}
        models.prefetch_related_objects(written, "sources")

    @classmethod
    def dump_row(cls, row: FeeToken, variables: Variables) -> dict[str, Any]:
        return {
            "network": escape(row.network),
            "symbol": escape(row.symbol),
            "address": row.address,
            "enabled": row.enabled,
            "margin_bps": row.margin_bps,
            "max_spread_bps": row.max_spread_bps,
            "sources": [SourceEntry(source).data for source in row.sources.all()],
        }
