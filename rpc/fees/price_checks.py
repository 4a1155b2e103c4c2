"""The prices of fee tokens that the admin and the metrics show; no fee is computed from these."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.utils import timezone

from chain.networks import Network, networks
from chain.nodes.failover import Node
from chain.readings import ChainReading, gather
from notifications.emitting import emit_to_all
from relayer_service.amounts import rate_text
from relayer_service.background.pools import map_threads
from relayer_service.storage.encryption import DecryptionError
from relayers.models import Relayer
from rpc import errors
from rpc.events import PRICE_FAILED, PRICE_RECOVERED, PriceData
from rpc.fees import bound_checks
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token
from rpc.models import FeeToken, PriceSource

logger = logging.getLogger(__name__)

# Tokens in a JSON-RPC batch, with a few calls each: nodes limit the calls in a batch.
TOKENS_IN_BATCH = 10

UNEXPECTED = "The price could not be read because of an internal error. See the service's log."
# The columns that a price depends on.
TOKEN_COLUMNS = ("network", "address", "max_spread_bps")

# The price of a token, or why there is none.
Outcome = Quote | str


@dataclass(frozen=True)
class TokenSnapshot:
    """A token with its sources, as they are before its price is read."""

    token: FeeToken
    sources: tuple[PriceSource, ...]


@dataclass(frozen=True)
class Batch:
    """Tokens of one network and the nodes to query, or why there are none."""

    snapshots: Sequence[TokenSnapshot]
    nodes: Sequence[Node] = ()
    network: Network | None = None
    fault: str = ""


def refresh(tokens: Iterable[FeeToken]) -> dict[int, str]:
    """Read and store the prices of tokens; return the error of each by primary key, empty if it has a price."""
    batches = list(_batches(tokens))
    bound_checks.refresh(
        bound_checks.Group(
            [source for snapshot in batch.snapshots for source in snapshot.sources], batch.nodes, batch.network
        )
        for batch in batches
        if batch.network
    )
    # No transaction is open while the nodes are queried.
    found = map_threads(_read, batches)
    return {
        snapshot.token.pk: _store(snapshot, outcome)
        for batch, outcomes in zip(batches, found, strict=True)
        for snapshot, outcome in zip(batch.snapshots, outcomes, strict=True)
    }


def _batches(tokens: Iterable[FeeToken]) -> Iterator[Batch]:
    by_network: dict[str, list[TokenSnapshot]] = defaultdict(list)
    for token in tokens:
        by_network[token.network].append(TokenSnapshot(token, tuple(token.sources.all())))
    for name, group in by_network.items():
        network = networks().get(name)
        # Callers can also use disabled relayers.
        relayer = Relayer.objects.filter(network=name).order_by("health__system_disabled", "pk").first()
        if network is None:
            yield Batch(group, fault=f"Unknown network '{name}'. Add it to NETWORKS_FILE.")
        elif relayer is None:
            yield Batch(group, fault=f"There is no relayer on {name} whose nodes could be queried.")
        else:
            yield from _batches_of(relayer, network, group)


def _batches_of(relayer: Relayer, network: Network, group: Sequence[TokenSnapshot]) -> Iterator[Batch]:
    try:
        relayer_nodes = relayer.node_urls()
    except DecryptionError:
        urls = f"The RPC URLs of the relayer {relayer.identifier}"
        yield Batch(group, fault=f"{urls} cannot be decrypted with the configured encryption keys.")
        return
    for first in range(0, len(group), TOKENS_IN_BATCH):
        yield Batch(group[first : first + TOKENS_IN_BATCH], relayer_nodes, network)


def _read(batch: Batch) -> list[Outcome]:
    """Return the prices of a batch; a token that fails does not affect the others."""
    if batch.network is None:
        return [batch.fault for _ in batch.snapshots]
    readings = {str(snapshot.token.pk): _reading(snapshot, batch.network) for snapshot in batch.snapshots}
    try:
        with errors.as_rpc_errors():
            found = gather(batch.nodes, batch.network, readings)
    except errors.RpcError as error:
        return [error.description for _ in batch.snapshots]
    return [_outcome(found[name]) for name in readings]


def _reading(snapshot: TokenSnapshot, network: Network) -> ChainReading:
    try:
        reading = price_reading(Token.from_row(snapshot.token, snapshot.sources, network))
    except Exception:
        logger.exception("Cannot read the price of %s", snapshot.token)
        return ChainReading([], lambda _: errors.InternalError())
    # Without a key it is not cached.
    return replace(reading, key=None)


def _outcome(found: Quote | errors.RpcError) -> Outcome:
    if isinstance(found, errors.InternalError):
        return UNEXPECTED
    return found if isinstance(found, Quote) else found.description


def _store(snapshot: TokenSnapshot, outcome: Outcome) -> str:
    """Store the outcome unless the token or a source was changed concurrently; return the error, if any."""
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
        # The admin too locks the token before it changes the token or its sources.
        row = FeeToken.objects.select_for_update().filter(pk=snapshot.token.pk).first()
        if row is not None and _is_unchanged(snapshot, row):
            FeeToken.objects.filter(pk=row.pk).update(**changes)
            _announce(row, changes["rate_error"])
    return str(changes["rate_error"])


def _announce(before: FeeToken, error: str) -> None:
    """Emit the event of a price that starts to fail, or that can be read again."""
    if bool(before.rate_error) != bool(error):
        data = PriceData(network=before.network, symbol=before.symbol, reason=error)
        emit_to_all(PRICE_FAILED if error else PRICE_RECOVERED, data)


def _is_unchanged(snapshot: TokenSnapshot, row: FeeToken) -> bool:
    if any(getattr(snapshot.token, name) != getattr(row, name) for name in TOKEN_COLUMNS):
        return False
    sources = PriceSource.objects.filter(token=row).order_by("pk")
    return [source.stored for source in sources] == [source.stored for source in snapshot.sources]
