"""Reading the bounds of Chainlink feeds, which are kept with their sources: an estimate then asks for none."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from chain import nodes
from chain.errors import ChainFault
from chain.networks import Network
from chain.nodes import Node
from relayer_service.background.pools import at_once
from rpc.fees.sources import bounds
from rpc.models import FeeToken, PriceSource

logger = logging.getLogger(__name__)

# Bounds that are known are read again after so long: an aggregator never changes its own, but a feed may get another
# aggregator. Feeds without bounds are asked with each check.
KEEP_SECONDS = 3600

# By feed, what is kept of it; empty where it no longer has bounds.
Entries = Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Sources of one network, and the nodes to ask about their feeds."""

    sources: Sequence[PriceSource]
    nodes: Sequence[Node]
    network: Network

    def due(self, now: int) -> dict[str, dict[str, Any]]:
        """Return the feeds to ask about, each with what is kept of it."""
        kept = [(feed, source.feed_bounds.get(feed, {})) for source in self.sources for feed in source.feeds]
        # A feed of several sources is due for all of them if it is for one.
        return {feed: entry for feed, entry in kept if self._is_due(entry, now)}

    def _is_due(self, entry: Mapping[str, Any], now: int) -> bool:
        if not entry or entry["chain_id"] != self.network.chain_id:
            return True
        return not 0 <= now - entry["read_at"] < KEEP_SECONDS


def refresh(groups: Iterable[Group]) -> None:
    """Read the bounds that are due, and keep them with the sources; where they cannot be read nothing changes."""
    now = int(time.time())
    due = [group for group in groups if group.due(now)]
    for group, entries in zip(due, at_once(lambda group: _read(group, now), due), strict=True):
        for source in group.sources:
            if entries.keys() & set(source.feeds):
                _keep(source, entries)


def _read(group: Group, now: int) -> Entries:
    try:
        return _ask(group, now)
    except ChainFault:
        # The check of the prices tells why no node answers.
        return {}
    except Exception:
        logger.exception("The bounds of feeds on %s cannot be read", group.network.name)
        return {}


def _ask(group: Group, now: int) -> Entries:
    chain_id, due = group.network.chain_id, group.due(now)
    answers = nodes.call(group.nodes, [bounds.aggregator_call(feed) for feed in due], chain_id)
    named = {feed: bounds.read_aggregator(answer) for feed, answer in zip(due, answers, strict=True)}
    # A feed that names no aggregator may be one itself.
    calls = [call for feed in due for call in bounds.bounds_calls(named[feed] or feed)]
    answers = nodes.call(group.nodes, calls, chain_id)
    entries: dict[str, dict[str, Any]] = {}
    for number, (feed, kept) in enumerate(due.items()):
        found = bounds.read_bounds(answers[2 * number : 2 * number + 2])
        if found:
            entries[feed] = {
                "chain_id": chain_id,
                "aggregator": named[feed] or feed,
                # As text: JSON readers round numbers of this size.
                "minimum": str(found.minimum),
                "maximum": str(found.maximum),
                "read_at": now,
            }
        elif kept and named[feed] not in {None, kept["aggregator"]}:
            entries[feed] = {}
    return entries


def _keep(source: PriceSource, entries: Entries) -> None:
    with transaction.atomic():
        # The admin locks the token too before it changes its sources: what staff have just saved is not overwritten.
        FeeToken.objects.select_for_update().filter(pk=source.token_id).first()
        row = PriceSource.objects.filter(pk=source.pk).first()
        if row is not None:
            PriceSource.objects.filter(pk=row.pk).update(feed_bounds=_merged(row, entries))
    # The price that is read next is judged by them.
    source.feed_bounds = _merged(source, entries)


def _merged(row: PriceSource, entries: Entries) -> dict[str, dict[str, Any]]:
    """Return what to keep with a row: of the feeds that it has now, and of no others."""
    merged = {feed: entries.get(feed, row.feed_bounds.get(feed)) for feed in row.feeds}
    return {feed: entry for feed, entry in merged.items() if entry}
