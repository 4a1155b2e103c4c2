"""Fee tokens in fleet files, with the sources of their prices."""

from typing import Any

from django.db import models

from chain.networks import networks
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section
from rpc.config_entries import FeeTokenEntry, SourceEntry
from rpc.models import FeeToken, PriceSource
from rpc.writes import FeeTokenWrite


class FeeTokenSection(Section):
    """Fee tokens have no id: a network and a symbol name one."""

    name = "fee_tokens"
    entry = FeeTokenEntry
    queryset = FeeToken.objects.prefetch_related("sources")
    write_class = FeeTokenWrite
    printed = ("network", "symbol")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.claimed: set[tuple[str, str]] = set()
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

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> FeeTokenWrite | None:
        write = FeeTokenWrite(row or FeeToken())
        token = write.row
        # What is left out becomes the default, except `enabled`: staff may have disabled this token.
        defaults = FeeToken(enabled=token.enabled)
        write.set({name: values.get(name, getattr(defaults, name)) for name in self.columns})
        sound = self.file.check(path, lambda: write.check(exclude=broken)) and not broken
        # What two tokens cannot both have is checked against the file, and not only against the database.
        is_once = bool(broken & {"network", "symbol"}) or self._claim(
            f"{path}.symbol", self.claimed, (token.network, token.symbol), "this token stands twice in the list"
        )
        if is_once and not broken & {"network", "address"}:
            address = (token.network, token.address)
            sound &= self._claim(
                f"{path}.address", self.taken, address, "another token of this network has this address"
            )
        if not (sound and is_once):
            return None
        self._set_sources(write, [PriceSource(**each) for each in values["sources"]])
        return write

    def _claim(self, path: str, taken: set[tuple[str, str]], wanted: tuple[str, str], fault: str) -> bool:
        """Reserve what only one token can have; return False, after reporting the fault, where another has it."""
        if wanted in taken:
            self.file.fault(path, fault)
            return False
        taken.add(wanted)
        return True

    @staticmethod
    def _set_sources(write: FeeTokenWrite, sources: list[PriceSource]) -> None:
        """Replace the sources that differ. Their order has no meaning."""
        removed, added = list(write.row.sources.all()) if write.row.pk else [], []
        for source in sources:
            entry = SourceEntry(source).data
            same = next((each for each in removed if SourceEntry(each).data == entry), None)
            if same is None:
                added.append(source)
            else:
                removed.remove(same)
        # A fixed rate stays as old as it is where something else of its source changes, as in the admin.
        set_at = {source.rate_text: source.rate_set_at for source in removed if source.rate_text}
        # So do the bounds of a feed that stays.
        bounds = {feed: entry for source in removed for feed, entry in source.feed_bounds.items()}
        for source in added:
            source.rate_set_at = set_at.get(source.rate_text)
            source.feed_bounds = {feed: bounds[feed] for feed in source.feeds if feed in bounds}
        write.set_sources(sources, added, removed)

    def snapshot(self, row: FeeToken) -> dict[str, Any]:
        """Return the token's columns, and those of its sources."""
        return super().snapshot(row) | {"sources": [source.stored for source in row.sources.all()]}

    def locked_rows(self) -> models.QuerySet[Any]:
        sources = models.Prefetch("sources", PriceSource.objects.select_for_update())
        return super().locked_rows().prefetch_related(sources)

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
