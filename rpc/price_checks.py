"""The prices of fee tokens that the admin and the metrics show; no fee is computed from these."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from chain.networks import Network, networks
from chain.nodes import Node
from chain.readings import ChainReading, gather
from relayer_service.amounts import rate_text
from relayer_service.background.pools import at_once
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from rpc import bound_checks, errors
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token
from rpc.models import FeeToken, PriceSource

logger = logging.getLogger(__name__)

# Tokens in one JSON-RPC batch, with a few calls each: nodes limit how many calls they take.
TOKENS_IN_BATCH = 10

UNEXPECTED = "The price could not be read for a reason inside the service; its log has it."
# What a price depends on.
TOKEN_COLUMNS = ("network", "address", "max_spread_bps")

# The price of a token, or why there is none.
Outcome = Quote | str


@dataclass(frozen=True)
class TokenSnapshot:
    """A token with its sources as they are when its price is asked for."""

    token: FeeToken
    sources: tuple[PriceSource, ...]


@dataclass(frozen=True)
class Part:
    """Tokens of one network and the nodes to ask for their prices, or why there are none."""

    asked: Sequence[TokenSnapshot]
    nodes: Sequence[Node] = ()
    network: Network | None = None
    fault: str = ""


def refresh(tokens: Iterable[FeeToken]) -> dict[int, str]:
    """Read the prices of tokens and store them; return by primary key why there is none, or nothing."""
    parts = list(_parts(tokens))
    bound_checks.refresh(
        bound_checks.Group([source for asked in part.asked for source in asked.sources], part.nodes, part.network)
        for part in parts
        if part.network
    )
    # The database is used before and after, so that no transaction is open while nodes are in flight.
    found = at_once(_read, parts)
    return {
        asked.token.pk: _note(asked, outcome)
        for part, outcomes in zip(parts, found, strict=True)
        for asked, outcome in zip(part.asked, outcomes, strict=True)
    }


def _parts(tokens: Iterable[FeeToken]) -> Iterator[Part]:
    by_network: dict[str, list[TokenSnapshot]] = defaultdict(list)
    for token in tokens:
        by_network[token.network].append(TokenSnapshot(token, tuple(token.sources.all())))
    for name, group in by_network.items():
        network = networks().get(name)
        # A disabled one counts too, as callers can use it, but comes last.
        relayer = Relayer.objects.filter(network=name).order_by("system_disabled", "pk").first()
        if network is None:
            yield Part(group, fault=f"The network {name} is not known: NETWORKS_FILE can add it.")
        elif relayer is None:
            yield Part(group, fault=f"There is no relayer on {name}, and so no node to ask.")
        else:
            yield from _parts_of(relayer, network, group)


def _parts_of(relayer: Relayer, network: Network, group: Sequence[TokenSnapshot]) -> Iterator[Part]:
    try:
        relayer_nodes = relayer.node_urls()
    except DecryptionError:
        keys = "cannot be opened with the encryption keys that are set"
        yield Part(group, fault=f"The RPC URLs of the relayer {relayer.identifier} {keys}.")
        return
    for first in range(0, len(group), TOKENS_IN_BATCH):
        yield Part(group[first : first + TOKENS_IN_BATCH], relayer_nodes, network)


def _read(part: Part) -> list[Outcome]:
    """Return the prices of a part, read in one batch; the failure of one token leaves the others alone."""
    if part.network is None:
        return [part.fault for _ in part.asked]
    readings = {str(asked.token.pk): _reading(asked, part.network) for asked in part.asked}
    try:
        with errors.chain_faults():
            found = gather(part.nodes, part.network, readings)
    except errors.RpcError as error:
        return [error.description for _ in part.asked]
    return [_outcome(found[name]) for name in readings]


def _reading(asked: TokenSnapshot, network: Network) -> ChainReading:
    """Return the reading of a token's price; without a key, as a cached price is no check."""
    try:
        reading = price_reading(Token.from_row(asked.token, asked.sources, network))
    except Exception:
        logger.exception("The price of %s cannot be asked for", asked.token)
        return ChainReading([], lambda _: errors.InternalError())
    return replace(reading, key=None)


def _outcome(found: Quote | errors.RpcError) -> Outcome:
    if isinstance(found, errors.InternalError):
        return UNEXPECTED
    return found if isinstance(found, Quote) else found.description


def _note(asked: TokenSnapshot, outcome: Outcome) -> str:
    """Store the outcome unless the token or a source has changed meanwhile; return why there is no price."""
    changes: dict[str, Any] = {"rate_error": outcome}
    if isinstance(outcome, Quote):
        changes = {
            "decimals": outcome.decimals,
            "rate_text": rate_text(outcome.rate),
            "rated_at": timezone.now(),
            "rate_error": "",
            "rate_details": [
                {"name": price.name, "rate": rate_text(price.rate), "updated_at": price.updated_at}
                for price in outcome.sources
            ],
        }
    with transaction.atomic():
        # The admin locks the token too before it changes the token or its sources.
        row = FeeToken.objects.select_for_update().filter(pk=asked.token.pk).first()
        if row is not None and _same(asked, row):
            FeeToken.objects.filter(pk=row.pk).update(**changes)
    reason: str = changes["rate_error"]
    return reason


def _same(asked: TokenSnapshot, row: FeeToken) -> bool:
    if any(getattr(asked.token, name) != getattr(row, name) for name in TOKEN_COLUMNS):
        return False
    sources = PriceSource.objects.filter(token=row).order_by("pk")
    return [source.stored for source in sources] == [source.stored for source in asked.sources]
