"""Fee tokens in fleet files, with their price sources."""

from typing import Any

from django.db import models

from chain.networks import networks, resolve_alias
from relayer_service.amounts import BASIS_POINTS
from relayer_service.api.serializers import (
    BooleanField,
    EvmAddressField,
    IntegerField,
    ListField,
    StrictSerializer,
    StringField,
)
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section
from relayers.serializers.relayers import NetworkField
from rpc.models import FeeToken, PriceSource
from rpc.serializers import SourceEntry, SourceField
from rpc.writes import FeeTokenWrite


class FeeTokenEntry(StrictSerializer):
    network = NetworkField()
    symbol = StringField(max_length=32)
    address = EvmAddressField()
    enabled = BooleanField(required=False)
    margin_bps = IntegerField(max_value=BASIS_POINTS, required=False)
    max_spread_bps = IntegerField(max_value=BASIS_POINTS, required=False)
    sources = ListField(child=SourceField())


class FeeTokenSection(Section):
    """Fee tokens have no id: a network and a symbol identify one."""

    name = "fee_tokens"
    entry = FeeTokenEntry
    queryset = FeeToken.objects.prefetch_related("sources")
    write_class = FeeTokenWrite
    printed = ("network", "symbol")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.claimed: set[tuple[str, str]] = set()
        # The addresses of tokens outside the file: those in it may change.
        self.taken: set[tuple[str, str]] = set()

    def key_of(self, entry: Any) -> tuple[str, str]:
        return resolve_alias(identifier_of(entry, "network")), identifier_of(entry, "symbol")

    def read_rows(self, keys: set[tuple[str, str]]) -> dict[tuple[str, str], FeeToken]:
        """Return all tokens of the networks, as an address must be unique on its network."""
        found = self.queryset.filter(network__in=sorted({network for network, _ in keys} & networks().keys()))
        rows = {(row.network, row.symbol): row for row in found}
        self.taken = {(row.network, row.address) for key, row in rows.items() if key not in keys}
        return rows

    def write(self, path: str, row: Any, values: dict[str, Any], broken: set[str]) -> FeeTokenWrite | None:
        write = FeeTokenWrite(row or FeeToken())
        token = write.row
        # A missing field gets its default, except `enabled`: staff may have disabled this token.
        defaults = FeeToken(enabled=token.enabled)
        write.set({name: values.get(name, getattr(defaults, name)) for name in self.columns})
        sound = self.file.check(path, lambda: write.check(exclude=broken)) and not broken
        # Uniqueness is checked in the file as well as in the database.
        is_unique = bool(broken & {"network", "symbol"}) or self._claim(
            f"{path}.symbol", self.claimed, (token.network, token.symbol), "duplicate token"
        )
        if is_unique and not broken & {"network", "address"}:
            address = (token.network, token.address)
            sound &= self._claim(
                f"{path}.address", self.taken, address, "another token on this network has this address"
            )
        if not (sound and is_unique):
            return None
        write.replace_sources([PriceSource(**each) for each in values["sources"]])
        return write

    def _claim(self, path: str, taken: set[tuple[str, str]], wanted: tuple[str, str], fault: str) -> bool:
        """Reserve a unique value; report the fault and return False if it is taken."""
        if wanted in taken:
            self.file.fault(path, fault)
            return False
        taken.add(wanted)
        return True

    def check_new(self, values: dict[str, Any]) -> None:
        write = FeeTokenWrite(FeeToken())
        write.set({name: value for name, value in values.items() if name != "sources"})
        write.check()

    def snapshot(self, row: FeeToken) -> dict[str, Any]:
        return super().snapshot(row) | {"sources": [source.stored for source in row.sources.all()]}

    def locked_rows(self) -> models.QuerySet[Any]:
        sources = models.Prefetch("sources", PriceSource.objects.select_for_update())
        return super().locked_rows().prefetch_related(sources)

    @classmethod
    def dump_row(cls, row: FeeToken, variables: Variables) -> dict[str, Any]:
        sources = [SourceEntry(source).data for source in row.sources.all()]
        return row.audited() | {"network": escape(row.network), "symbol": escape(row.symbol), "sources": sources}
