"""Finding relayers to top up, and reading their balances from the nodes: the last check may be too old."""

import logging
import random
import threading
from collections.abc import Sequence
from datetime import datetime

from django.db.models import F, Q
from django.db.models.functions import Length

from chain.errors import NodesUnreachable
from chain.nodes import failover, head
from chain.nodes.answers import quantity
from chain.nodes.attempts import Call
from chain.nodes.plausibility import is_above
from relayer_service.background.pools import map_threads
from relayer_service.background.tasks import OutageFilter
from relayer_service.database.access import release_connection
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.extensions import is_enabled
from relayer_service.storage.encryption import DecryptionError
from relayers.health.checking import batches
from relayers.models import Relayer
from transactions.models import FINAL, TopUp, Waiting
from transactions.records.crash_points import step
from transactions.top_ups import decisions, sending
from transactions.top_ups.decisions import BalanceReading
from transactions.top_ups.quoting import quote
from transactions.top_ups.sending import Decision

logger = logging.getLogger(__name__)
logger.addFilter(OutageFilter())

# Relayers of one sweep.
MAX_RELAYERS = 500
# Of amounts as text, without leading zeros.
IS_BELOW = Q(health__balance_text__gt="") & (
    Q(digits__lt=F("minimum_digits"))
    | Q(digits=F("minimum_digits"), health__balance_text__lt=F("top_up_minimum_text"))
)

_sweeping = threading.Lock()


def sweep() -> None:
    """Follow open top-ups, and read and decide about the relayers that may need one.

    Nodes that hang can make it last long: until it ends, this process starts no other one.
    """
    if not is_enabled("transactions") or not _sweeping.acquire(blocking=False):
        return
    try:
        follow()
        relayers, now = candidates(), database_now()
        release_connection()
        found = [each for readings in map_threads(read, batches(relayers)) for each in readings]
        decisions = map_threads(lambda each: prepare(*each, now), found)
        if decisions:
            step("top_up_read")
        for decision in decisions:
            _decide(decision)
    finally:
        _sweeping.release()


def _decide(decision: Decision) -> None:
    try:
        sending.decide(decision)
    except Exception:
        # An outage of the database, or a bug: the others are still decided, and the next sweep reads this one again.
        logger.exception("The top-up of the relayer %s failed", decision.relayer_pk)


def follow() -> None:
    """Write after which block the transactions of open top-ups change no balance any more."""
    rows = TopUp.objects.filter(state=TopUp.State.OPEN, transaction__status__in=FINAL)
    now = database_now()
    for top_up in rows.select_related("transaction__lane__watch"):
        assert top_up.transaction is not None
        block = decisions.settled_block(top_up, top_up.transaction, top_up.transaction.lane, now)
        if block is not None and (top_up.final_block is None or is_above(top_up.final_block, block)):
            TopUp.objects.filter(pk=top_up.pk, final_block=top_up.final_block).update(final_block=block)
            step("top_up_settled")


def candidates() -> list[Relayer]:
    """Return relayers whose last check found too little, whose lane waits for funds, or with an unresolved top-up."""
    funded = Relayer.objects.filter(funding_relayer__isnull=False, paused=False, health__system_disabled=False)
    digits = {"digits": Length("health__balance_text"), "minimum_digits": Length("top_up_minimum_text")}
    low = funded.annotate(**digits).filter(IS_BELOW | Q(lane__waiting=Waiting.FUNDS))
    unresolved = TopUp.objects.filter(Q(state=TopUp.State.OPEN) | Q(due_at__isnull=False))
    waits = unresolved.filter(Q(state=TopUp.State.OPEN, final_block=None) | Q(due_at__gt=DatabaseNow()))
    keys = {*low.values_list("pk", flat=True), *unresolved.values_list("relayer", flat=True)}
    keys -= {*waits.values_list("relayer", flat=True)}
    # Any of them, so that none is left out for long.
    chosen = random.sample(sorted(keys), min(len(keys), MAX_RELAYERS))
    rows = Relayer.objects.filter(pk__in=chosen).exclude(address="")
    return list(rows.select_related("funding_relayer").order_by("pk"))


def read(relayers: Sequence[Relayer]) -> list[tuple[Relayer, BalanceReading]]:
    """Return the balances of relayers with the same nodes, all in the state of one block.

    The number of the block is read first, and the balances at it: a batch may see several blocks.
    """
    chain_id = relayers[0].expected_chain_id
    try:
        urls = relayers[0].node_urls()
        block = quantity(failover.call(urls, [head.NUMBER_CALL], chain_id)[0])
        if block is None:
            return []
        calls = [Call("eth_getBalance", [relayer.address, hex(block)]) for relayer in relayers]
        balances = [quantity(answer) for answer in failover.call(urls, calls, chain_id)]
    except (NodesUnreachable, DecryptionError) as error:
        logger.warning("The balances of %d relayers cannot be read: %s", len(relayers), error)
        return []
    pairs = zip(relayers, balances, strict=True)
    return [
        (relayer, BalanceReading(relayer.address, balance, block)) for relayer, balance in pairs if balance is not None
    ]


def prepare(relayer: Relayer, reading: BalanceReading, now: datetime) -> Decision:
    """Add what the top-up can cost, if there is one. Without a query, as it is called in threads."""
    amounts, funding = relayer.top_up, relayer.funding_relayer
    amount = decisions.missing(amounts, reading.balance) if amounts is not None else 0
    if not amount or funding is None:
        return Decision(relayer.pk, reading)
    return Decision(relayer.pk, reading, funding.pk, quote(funding, relayer.address, amount, now))
