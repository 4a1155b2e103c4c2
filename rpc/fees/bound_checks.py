"""Reading the bounds of Chainlink feeds. They are stored with the sources, so that estimates read none."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from chain.contracts import contract_call
from chain.errors import ChainFault
from chain.networks import Network
from chain.nodes import failover
from chain.nodes.failover import Node
from relayer_service.background.pools import map_threads
from rpc.fees.sources import chainlink
from rpc.models import FeeToken, PriceSource

logger = logging.getLogger(__name__)

# The bounds of an aggregator never change, but a feed can switch to another aggregator. Feeds without bounds are
# queried with each check.
KEEP_SECONDS = 3600

# The stored entry of each feed; empty if it no longer has bounds.
Entries = Mapping[str, dict[str, Any]]


@dataclass(frozen=True)
class Group:
    """Price sources of one network, and the nodes to query."""

    sources: Sequence[PriceSource]
    nodes: Sequence[Node]
    network: Network

    def due(self, now: int) -> dict[str, dict[str, Any]]:
        """Return the feeds to query, each with its stored entry."""
        kept = [(feed, source.feed_bounds.get(feed, {})) for source in self.sources for feed in source.feeds]
        chain_id = self.network.chain_id
        # A feed of several sources is due for all of them if it is for one.
        return {
            feed: entry
            for feed, entry in kept
            if not entry or entry["chain_id"] != chain_id or not 0 <= now - entry["read_at"] < KEEP_SECONDS
        }


def refresh(groups: Iterable[Group]) -> None:
    """Read and store the bounds that are due; those that cannot be read stay unchanged."""
    now = int(time.time())
    due = [group for group in groups if group.due(now)]
    for group, entries in zip(due, map_threads(lambda group: _read(group, now), due), strict=True):
        for source in group.sources:
            if entries.keys() & set(source.feeds):
                _store(source, entries)


def _read(group: Group, now: int) -> Entries:
    try:
        return _query(group, now)
    except ChainFault:
        # The check of the prices reports the reason.
        return {}
    except Exception:
        logger.exception("Cannot read the bounds of feeds on %s", group.network.name)
        return {}


def _query(group: Group, now: int) -> Entries:
    chain_id, due = group.network.chain_id, group.due(now)
    answers = failover.call(group.nodes, [contract_call(feed, "aggregator()") for feed in due], chain_id)
    named = {feed: chainlink.read_aggregator(answer) for feed, answer in zip(due, answers, strict=True)}
    # A feed that names no aggregator may be one itself.
    calls = [contract_call(named[feed] or feed, name) for feed in due for name in ("minAnswer()", "maxAnswer()")]
    answers = failover.call(group.nodes, calls, chain_id)
    entries: dict[str, dict[str, Any]] = {}
    for number, (feed, kept) in enumerate(due.items()):
        found = chainlink.read_bounds(answers[2 * number : 2 * number + 2])
        if found:
            entries[feed] = {
                "chain_id": chain_id,
                "aggregator": named[feed] or feed,
                # Strings, as JSON readers round numbers of this size.
                "minimum": str(found.minimum),
                "maximum": str(found.maximum),
                "read_at": now,
            }
        elif kept and named[feed] not in {None, kept["aggregator"]}:
            entries[feed] = {}
    return entries


def _store(source: PriceSource, entries: Entries) -> None:
    with transaction.atomic():
        # The admin too locks the token before it changes its sources.
        FeeToken.objects.select_for_update().filter(pk=source.token_id).first()
        row = PriceSource.objects.filter(pk=source.pk).first()
        if row is not None:
            PriceSource.objects.filter(pk=row.pk).update(feed_bounds=_merged(row, entries))
    # For the price check that follows.
    source.feed_bounds = _merged(source, entries)


def _merged(row: PriceSource, entries: Entries) -> dict[str, dict[str, Any]]:
    """Return the entries of the feeds that a row has now."""
    merged = {feed: entries.get(feed, row.feed_bounds.get(feed)) for feed in row.feeds}
    return {feed: entry for feed, entry in merged.items() if entry}
