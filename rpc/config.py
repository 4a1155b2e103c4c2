"""Fee tokens in fleet files, with their price sources."""

from typing import Any

from django.core.exceptions import ValidationError as ModelError
from django.db import models
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from chain.networks import networks
from relayer_service.amounts import BASIS_POINTS, parse_rate
from relayer_service.api.evm import EvmAddressField
from relayer_service.api.serializers import (
    BooleanField,
    ChoiceField,
    IntegerField,
    ListField,
    ObjectField,
    StrictSerializer,
    StringField,
)
from relayer_service.fleet.files import identifier_of
from relayer_service.fleet.references import Variables, escape
from relayer_service.fleet.sections import Section
from relayers.policies import MAX_AMOUNT
from rpc.models import FeeToken, PriceSource
from rpc.models.fee_tokens import MAX_SECONDS
from rpc.writes import FeeTokenWrite


class RateField(StringField):
    """A decimal number as a string, so that no JSON reader rounds it."""

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        try:
            parse_rate(text)
        except ValueError as error:
            raise ValidationError(str(error)) from None
        return text


class AmountField(IntegerField):
    """A number in the file, a string in the database."""

    def to_internal_value(self, data: Any) -> Any:
        return str(super().to_internal_value(data))

    def to_representation(self, value: Any) -> int:
        return int(value)


class SecondsField(IntegerField):
    def __init__(self, *, min_value: int = 1) -> None:
        super().__init__(min_value=min_value, max_value=MAX_SECONDS, required=False)


class SourceEntry(StrictSerializer):
    """A price source, with the fields of its kind."""

    kind = ChoiceField(choices=PriceSource.Kind.choices)
    rate = RateField(required=False, source="rate_text")
    max_age_seconds = SecondsField()
    feed = EvmAddressField(required=False)
    heartbeat_seconds = SecondsField()
    native_feed = EvmAddressField(required=False)
    native_heartbeat_seconds = SecondsField()
    sequencer_feed = EvmAddressField(required=False)
    sequencer_grace_seconds = SecondsField(min_value=0)
    pair = EvmAddressField(required=False)
    wrapped_native = EvmAddressField(required=False)
    min_liquidity = AmountField(max_value=MAX_AMOUNT, required=False, source="min_liquidity_text")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Omit the fields of other kinds; if the kind is unknown, all are accepted."""
        fields = super().get_fields()
        kind = self.instance.kind if self.instance is not None else self.initial_data.get("kind")
        if kind not in PriceSource.Kind.values:
            return fields
        names = ["kind", *PriceSource.fields_of(kind)]
        found = {name: field for name, field in fields.items() if (field.source or name) in names}
        for name, field in found.items():
            field.required = (field.source or name) in ["kind", *PriceSource.REQUIRED[PriceSource.Kind(kind)]]
        return found

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Apply the rules of the model; return the cleaned fields."""
        row = PriceSource(**attrs)
        try:
            row.full_clean(exclude=["token"])
        except ModelError as error:
            names = {field.source: name for name, field in self.fields.items()}
            raise ValidationError({names[name]: texts for name, texts in error.message_dict.items()}) from None
        return {name: getattr(row, name) for name in attrs}

    def to_representation(self, instance: PriceSource) -> dict[str, Any]:
        values = {name: (field, getattr(instance, str(field.source))) for name, field in self.fields.items()}
        return {
            name: field.to_representation(value) for name, (field, value) in values.items() if value not in {"", None}
        }


class SourceField(ObjectField):
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        entry = SourceEntry(data=super().to_internal_value(data))
        entry.is_valid(raise_exception=True)
        return dict(entry.validated_data)


class FeeTokenEntry(StrictSerializer):
    network = StringField(max_length=64)
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
        return identifier_of(entry, "network"), identifier_of(entry, "symbol")

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
        # Uniqueness is checked within the file too, not only in the database.
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
        self._set_sources(write, [PriceSource(**each) for each in values["sources"]])
        return write

    def _claim(self, path: str, taken: set[tuple[str, str]], wanted: tuple[str, str], fault: str) -> bool:
        """Reserve a unique value; report the fault and return False if it is taken."""
        if wanted in taken:
            self.file.fault(path, fault)
            return False
        taken.add(wanted)
        return True

    @staticmethod
    def _set_sources(write: FeeTokenWrite, sources: list[PriceSource]) -> None:
        """Replace the sources that differ, in any order."""
        removed, added = list(write.row.sources.all()) if write.row.pk else [], []
        for source in sources:
            entry = SourceEntry(source).data
            same = next((each for each in removed if SourceEntry(each).data == entry), None)
            if same is None:
                added.append(source)
            else:
                removed.remove(same)
        # A fixed rate keeps its age if another field of its source changes, as in the admin.
        set_at = {source.rate_text: source.rate_set_at for source in removed if source.rate_text}
        # So do the bounds of an unchanged feed.
        bounds = {feed: entry for source in removed for feed, entry in source.feed_bounds.items()}
        for source in added:
            source.rate_set_at = set_at.get(source.rate_text)
            source.feed_bounds = {feed: bounds[feed] for feed in source.feeds if feed in bounds}
        write.set_sources(sources, added, removed)

    def snapshot(self, row: FeeToken) -> dict[str, Any]:
        return super().snapshot(row) | {"sources": [source.stored for source in row.sources.all()]}

    def locked_rows(self) -> models.QuerySet[Any]:
        sources = models.Prefetch("sources", PriceSource.objects.select_for_update())
        return super().locked_rows().prefetch_related(sources)

    @classmethod
    def dump_row(cls, row: FeeToken, variables: Variables) -> dict[str, Any]:
        sources = [SourceEntry(source).data for source in row.sources.all()]
        return row.audited() | {"network": escape(row.network), "symbol": escape(row.symbol), "sources": sources}
