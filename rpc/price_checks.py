"""The prices of fee tokens that the admin and the metrics show; no fee is computed from these."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from relayer_service.amounts import rate_text
from relayer_service.ops.pools import at_once
from relayer_service.storage.encryption import DecryptionError
from relayers.chain.networks import Network, networks
from relayers.chain.nodes import Node
from relayers.chain.readings import Reading, gather
from relayers.models import Relayer
from rpc import errors
from rpc.fees.prices import Quote, price_reading
from rpc.fees.tokens import Token
from rpc.models import FeeToken

logger = logging.getLogger(__name__)

# Tokens in one JSON-RPC batch, with a few calls each: nodes limit how many calls they take.
TOKENS_IN_BATCH = 10

UNEXPECTED = "The price could not be read for a reason inside the service; its log has it."
# The price of a token, or why there is none.
Outcome = Quote | str


@dataclass(frozen=True)
class Batch:
    """Tokens of one network and the nodes to ask for their prices, or why they cannot be asked."""

    tokens: Sequence[Token]
    network: str
    nodes: Sequence[Node]
    fault: str


def refresh(rows: Iterable[FeeToken]) -> dict[int, str]:
    """Read the prices of tokens and store them; return by primary key why there is none, or nothing."""
    batches = list(_batches(rows))
    # The database is used before and after, so that no transaction is open while nodes are in flight.
    found = at_once(_read, batches)
    return {
        token.row.pk: _store(token, outcome)
        for batch, outcomes in zip(batches, found, strict=True)
        for token, outcome in zip(batch.tokens, outcomes, strict=True)
    }


def _batches(rows: Iterable[FeeToken]) -> Iterator[Batch]:
    by_network: dict[str, list[Token]] = defaultdict(list)
    for row in rows:
        by_network[row.network].append(Token(row, tuple(row.sources.all())))
    for network, tokens in by_network.items():
        nodes, fault = _nodes(network)
        for first in range(0, len(tokens), TOKENS_IN_BATCH):
            yield Batch(tokens[first : first + TOKENS_IN_BATCH], network, nodes, fault)


def _nodes(network: str) -> tuple[Sequence[Node], str]:
    """Return the nodes of a relayer on the network, and why there are none."""
    if network not in networks():
        return [], f"The network {network} is not known: NETWORKS_FILE can add it."
    # A disabled one counts too, as callers can use it, but comes last.
    relayer = Relayer.objects.filter(network=network).order_by("system_disabled", "pk").first()
    if relayer is None:
        return [], f"There is no relayer on {network}, and so no node to ask."
    try:
        return relayer.node_urls(), ""
    except DecryptionError:
        keys = "cannot be opened with the encryption keys that are set"
        return [], f"The RPC URLs of the relayer {relayer.identifier} {keys}."


def _read(batch: Batch) -> list[Outcome]:
    """Return the prices of a batch, read in one request; the failure of one token leaves the others alone."""
    if batch.fault:
        return [batch.fault for _ in batch.tokens]
    network = networks()[batch.network]
    readings = {str(token.row.pk): _reading(token, network) for token in batch.tokens}
    try:
        with errors.chain_faults():
            found = gather(batch.nodes, network.chain_id, readings)
    except errors.RpcError as error:
        return [error.description for _ in batch.tokens]
    return [found[name] for name in readings]


def _reading(token: Token, network: Network) -> Reading:
    """Return the reading of a token's price, with errors as words; without a key, as a cached price is no check."""
    try:
        reading = price_reading(token, network)
    except Exception:
        logger.exception("The price of %s cannot be asked for", token.row)
        return Reading([], lambda _: UNEXPECTED)

    def read(answers: list[Any]) -> Outcome:
        try:
            quote: Quote = reading.read(answers)
        except errors.RpcError as error:
            return error.description
        except Exception:
            logger.exception("The price of %s cannot be read", token.row)
            return UNEXPECTED
        return quote

    return Reading(reading.calls, read)


def _store(token: Token, outcome: Outcome) -> str:
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
        row = FeeToken.objects.select_for_update().filter(pk=token.row.pk).first()
        if row is not None and Token(row, tuple(row.sources.order_by("pk"))).price_inputs == token.price_inputs:
            FeeToken.objects.filter(pk=row.pk).update(**changes)
    reason: str = changes["rate_error"]
    return reason
