"""What a config file changes of fee tokens and their sources, and making all its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, models, transaction
from django.db.models.functions import Cast
from django.utils import timezone

from relayers import config_changes
from relayers.config_changes import AT_ONCE, Change, ChangedMeanwhile
from rpc.config_entries import source_entry
from rpc.models import FeeToken, PriceSource

# The columns that a file is about.
COLUMNS = ("network", "symbol", "address", "enabled", "margin_bps", "max_spread_bps")


@dataclass
class TokenChange(Change):
    """A fee token as the file wants it. A source that is different is another source: it is not updated."""

    added: list[PriceSource] = field(default_factory=list)
    removed: list[PriceSource] = field(default_factory=list)


def snapshot(row: FeeToken) -> dict[str, Any]:
    """Give what stands in a token's columns, and in those of its sources."""
    sources = [
        {column.attname: getattr(source, column.attname) for column in PriceSource._meta.concrete_fields}
        for source in row.sources.all()
    ]
    return {name: getattr(row, name) for name in COLUMNS} | {"sources": sources}


def fee_token(row: FeeToken | None, values: dict[str, Any]) -> TokenChange:
    """Put what the file says onto a token, but for its sources; `compare` finds what is different."""
    change = TokenChange(row, snapshot(row)) if row else TokenChange(FeeToken())
    # What is left out is as it is of a new token; but staff may have disabled this one meanwhile.
    left_out = FeeToken(enabled=change.row.enabled)
    for name in COLUMNS:
        setattr(change.row, name, values.get(name, getattr(left_out, name)))
    return change


def compare(change: TokenChange, sources: list[dict[str, Any]]) -> None:
    """Find what is different of a token, once all is put onto it. The order of sources has no meaning."""
    row: FeeToken = change.row
    change.removed = list(row.sources.all()) if row.pk else []
    for source in (PriceSource(**values) for values in sources):
        same = next((each for each in change.removed if source_entry(each) == source_entry(source)), None)
        if same is None:
            change.added.append(source)
        else:
            change.removed.remove(same)
    _keep_age_of_rates(change)
    if change.seen is None:
        return
    for name in COLUMNS:
        if getattr(row, name) != change.seen[name]:
            change.note(name, name)
    if change.added or change.removed:
        change.note("sources")
    _forget(change)


def _keep_age_of_rates(change: TokenChange) -> None:
    """Let a fixed rate be as old as it is where something else of its source changes, as in the admin."""
    set_at = {source.rate_text: source.rate_set_at for source in change.removed if source.rate_text}
    for source in change.added:
        source.rate_set_at = set_at.get(source.rate_text)


def _forget(change: TokenChange) -> None:
    """Drop what was read of a contract that is no longer the token's, or with other sources."""
    forgotten: dict[str, Any] = {"decimals": None} if "address" in change.fields else {}
    if {"address", "max_spread_bps", "sources"} & {*change.fields}:
        forgotten |= FeeToken.NO_PRICE
    for name, value in forgotten.items():
        setattr(change.row, name, value)
    change.columns |= forgotten.keys()


def apply(changes: Sequence[Change]) -> None:
    """Make all changes, or none."""
    try:
        with transaction.atomic():
            config_changes.apply(changes)
            _apply([change for change in changes if isinstance(change, TokenChange)])
    except IntegrityError:
        raise ChangedMeanwhile from None


def _apply(changes: list[TokenChange]) -> None:
    updated = [change for change in changes if change.fields]
    for start in range(0, len(updated), AT_ONCE):
        _refuse_changed(updated[start : start + AT_ONCE])
    # One token may get the address that another had, whichever is written first.
    moved = [change.row.pk for change in updated if "address" in change.columns]
    FeeToken.objects.filter(pk__in=moved).update(address=Cast("pk", models.CharField(max_length=42)))
    FeeToken.objects.bulk_create([change.row for change in changes if change.created], batch_size=AT_ONCE)
    for change in updated:
        change.row.save(update_fields=change.columns)
    PriceSource.objects.filter(pk__in=[source.pk for change in changes for source in change.removed]).delete()
    PriceSource.objects.bulk_create(_added(changes), batch_size=AT_ONCE)


def _added(changes: list[TokenChange]) -> list[PriceSource]:
    for change in changes:
        for source in change.added:
            source.token = change.row
            if source.kind == PriceSource.Kind.FIXED and source.rate_set_at is None:
                source.rate_set_at = timezone.now()
    return [source for change in changes for source in change.added]


def _refuse_changed(changes: list[TokenChange]) -> None:
    """Lock tokens and their sources, and refuse to go on where one is not what it was when the file was checked."""
    sources = models.Prefetch("sources", PriceSource.objects.select_for_update())
    rows = FeeToken.objects.select_for_update().filter(pk__in=[change.row.pk for change in changes])
    found = {row.pk: snapshot(row) for row in rows.order_by("pk").prefetch_related(sources)}
    if any(found.get(change.row.pk) != change.seen for change in changes):
        raise ChangedMeanwhile
