"""Final rows that a reorg can still take from the chain, or has taken: it may be deeper than `confirmations`.

Their status stays, and they keep their nonce: no other payload is ever signed for it. The lane broadcasts their bytes
again (`lanes/gate.py`), so that what was reported as executed is executed, and so that the nonces above it are.
"""

from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce, Least

from relayer_service.database.clock import DatabaseNow
from transactions.models import FINAL, Transaction

# Nodes may never report a final count: then a lane is not watched for longer than this.
WATCHED_TIME = timedelta(days=1)


def has_removable_rows() -> Exists:
    """Return the condition of a query of lanes: a reorg can still remove a final row, or has removed one.

    Such a lane is watched though it has no open row: a worker claims it, and does not release it.
    """
    rows = Transaction.objects.filter(
        lane=OuterRef("pk"), epoch=OuterRef("epoch"), status__in=FINAL, mined_attempt__isnull=False
    )
    recent = Q(nonce__gte=Coalesce(OuterRef("final_nonce"), 0), finished_at__gt=DatabaseNow() - WATCHED_TIME)
    # Of the whole history of a lane, the index reads from the lower one of both.
    lowest = Least(Coalesce(OuterRef("final_nonce"), 0), Coalesce(OuterRef("chain_nonce"), 0))
    return Exists(rows.filter(recent | Q(nonce__gte=OuterRef("chain_nonce")), nonce__gte=lowest))
