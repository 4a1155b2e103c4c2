"""What a second node of a relayer reports: if there is one, it must agree before a payload gets a second nonce.

No charge of what may have been executed is released without it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from chain.errors import NodesUnreachable
from chain.nodes.answers import member_quantity
from chain.nodes.attempts import Call
from relayer_service.database.access import release_connection
from relayer_service.database.clock import DatabaseNow, database_now
from relayer_service.database.updating import update_each
from relayer_service.storage.encryption import DecryptionError
from transactions.changes import locking_rows
from transactions.limits.status_changes import settle
from transactions.models import UNCORROBORATED, Charge, Transaction
from transactions.records.networks import network_of
from transactions.settlement.reading import RECEIPTS_IN_BATCH, ChainView, NodeReader, Receipt, readers
from transactions.settlement.searching import UsedNonce

# For as long as a charge counts.
CHARGED_TIME = timedelta(hours=25)


def has_transaction(reader: NodeReader, address: str, used: UsedNonce) -> bool | None:
    """Return whether the second node has a transaction with this nonce in the same block; None if there is none."""
    if reader.second is None:
        return None
    with suppress(NodesUnreachable):
        (answer,) = reader.second.call([Call("eth_getTransactionByHash", [used.hash], is_optional=True)])
        if member_quantity(answer, "nonce") == used.nonce:
            found = [str(answer.get(name)).lower() for name in ("hash", "blockHash", "from")]
            return found == [used.hash, used.block.hash, address.lower()]
    return False


def compare(reader: NodeReader, view: ChainView, hashes: Sequence[str]) -> ChainView:
    """Return a view with what the second node reports of transactions: nothing if it does not answer."""
    if reader.second is None or not hashes:
        return view
    found: Mapping[str, Receipt] = {}
    with suppress(NodesUnreachable):
        found = reader.second.receipts(hashes)
    return replace(view, second_url=reader.second.url, second=found)


def release_charges() -> None:
    """Release the charges of one relayer's final rows whose result two nodes report: one of them reported it first."""
    is_charged = Exists(Charge.objects.filter(transaction=OuterRef("pk")))
    recent = Transaction.objects.filter(UNCORROBORATED, is_charged, finished_at__gt=DatabaseNow() - CHARGED_TIME)
    mined = recent.filter(mined_attempt__isnull=False).select_related("mined_attempt", "relayer")
    # A random one: relayers with a single node hold up no other.
    chosen = mined.exclude(relayer=None).order_by("?").first()
    if chosen is None or chosen.relayer is None:
        return
    rows = {str(row.mined_attempt): row for row in mined.filter(relayer=chosen.relayer)[:RECEIPTS_IN_BATCH]}
    release_connection()
    reports: Counter[int] = Counter()
    with suppress(DecryptionError):
        for reader in readers(chosen.relayer.node_urls(), network_of(chosen.relayer)):
            if reader.second is None:
                return
            with suppress(NodesUnreachable):
                for each, receipt in reader.receipts(rows).items():
                    result = (rows[each].block_hash, rows[each].succeeded)
                    reports[rows[each].pk] += result == (receipt.block.hash, receipt.succeeded)
    with transaction.atomic():
        now, agreed = database_now(), [pk for pk, count in reports.items() if count > 1]
        locked = list(locking_rows().filter(pk__in=agreed, corroborated_at=None))
        for row in locked:
            row.corroborated_at = now
        update_each(locked, ["corroborated_at"])
        settle(locked, now)
